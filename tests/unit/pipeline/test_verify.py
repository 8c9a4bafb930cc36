# SPDX-License-Identifier: Apache-2.0
"""Six recoveries with a label each, out of a store as the agent writes it: held; not held; held while resets go on; a spike every
three minutes; a reboot without an apply; job success that recovers. And what is said where nothing is known."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.build import ScriptedHost

from zombiescope.analysis.comparing import ComparedRow, Direction
from zombiescope.analysis.recovery import Period, derive_rows
from zombiescope.diagnosis.outcome import Holding
from zombiescope.errors import ObservationError, UsageError
from zombiescope.facts.history import Sample
from zombiescope.history.store import Store
from zombiescope.pipeline import timeline, verify
from zombiescope.pipeline.verify import Asked
from zombiescope.presenters.receipt_text import render_verify
from zombiescope.remedies.receipts import Verified

NOW = 1_790_000_000.0
CHANGED = NOW - 1500.0
BEFORE_SECONDS, STEP = 3 * 3600.0, 10.0
Story = Callable[[float], dict[str, float]]
"""What is remembered at a moment, by seconds since the change."""


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    class Still(ScriptedHost):
        def __init__(self) -> None:
            super().__init__({})

        def wall_clock(self) -> float:
            return NOW

    monkeypatch.setattr(verify, "LiveHost", Still)


def remembered(folder: Path, story: Story, boots: tuple[str, str] = ("one", "one")) -> str:
    folder.chmod(0o700)
    store = Store(str(folder))
    for number in range(int((BEFORE_SECONDS + 1500) / STEP)):
        at = CHANGED - BEFORE_SECONDS + number * STEP
        store.add_sample(at, boots[at >= CHANGED], story(at - CHANGED))
    store.close()
    return str(folder)


def looked(state: str, events: Path | None = None) -> Verified:
    sources = (str(events),) if events else ()
    return verify.verify(Asked(state, window=600.0, since=CHANGED, events=sources))


def row(seen: Verified, what: str) -> ComparedRow:
    return next(each for each in seen.rows if each.what == what)


def stock(t: float, *, cured: bool = True) -> float:
    """Six hundred more per hour until the cure, which frees nearly all of them."""
    grown = 2000 + (t + BEFORE_SECONDS) / 6
    return 40.0 if cured and t >= 0 else round(grown)


def saturated(t: float, *, always: bool = False) -> float:
    """Nine seconds every three minutes."""
    spikes = int((t + BEFORE_SECONDS) // 180)
    return 9.0 * (spikes if always or t < 0 else int(BEFORE_SECONDS // 180))


def test_held(tmp_path: Path) -> None:
    seen = looked(remembered(tmp_path, lambda t: {"zombies": stock(t), "saturated_seconds": saturated(t)}))
    assert seen.outcome.verdict is Holding.HELD, seen.outcome
    assert row(seen, "zombies").verdict is Direction.BETTER
    assert row(seen, "growth").verdict is Direction.BETTER
    assert row(seen, "saturated cores").verdict is Direction.BETTER
    assert " but " not in seen.outcome.why


def test_not_held(tmp_path: Path) -> None:
    """What was there is gone, and the maker goes on."""
    seen = looked(remembered(tmp_path, lambda t: {"zombies": 30 + t / 6 if t >= 0 else stock(t)}))
    assert seen.outcome.verdict is Holding.NOT_HELD
    assert "still grow, by about 600 per hour" in seen.outcome.why


def test_held_but_resets_go_on(tmp_path: Path) -> None:
    def story(t: float) -> dict[str, float]:
        return {"zombies": stock(t), "nic_resets": float((t + BEFORE_SECONDS) // 600)}

    seen = looked(remembered(tmp_path, story))
    assert seen.outcome.verdict is Holding.HELD
    assert "but network card resets go on" in seen.outcome.why
    resets = row(seen, "network card resets")
    assert resets.verdict is Direction.SAME
    assert resets.before.value is not None
    assert 5 <= resets.before.value <= 7
    assert resets.after.number in (2, 3)


def test_a_spike_every_three_minutes_is_part_of_the_baseline(tmp_path: Path) -> None:
    def story(t: float) -> dict[str, float]:
        return {"zombies": stock(t), "saturated_seconds": saturated(t, always=True)}

    seen = looked(remembered(tmp_path, story))
    assert seen.outcome.verdict is Holding.HELD
    assert row(seen, "saturated cores").verdict is Direction.SAME
    assert "worse" not in seen.outcome.why


def test_a_reboot_without_an_apply(tmp_path: Path) -> None:
    def story(t: float) -> dict[str, float]:
        counter = 9.0 * ((t + BEFORE_SECONDS) // 600) if t < 0 else 0.0
        return {"zombies": stock(t) if t < 0 else 3.0, "throttled_seconds": counter, "poll_waits_long": counter}

    seen = looked(remembered(tmp_path, story, ("before", "after")))
    assert seen.outcome.verdict is Holding.HELD
    assert seen.action is None
    assert row(seen, "late polls").verdict is Direction.BETTER
    document = render_verify(seen, seen.gaps)
    assert document["action"] is None
    assert {"action", "before", "after"} <= {gap["fact"] for gap in document["gaps"]}
    first = document["rows"][0]
    assert (first["what"], first["before"]["source"], first["verdict"]) == ("zombies", "history", "better")
    assert first["before"]["seconds"] > 10_000


def test_job_success_recovers(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    lines = [
        json.dumps({"at": CHANGED - BEFORE_SECONDS + 100 * number, "what": f"job {number}", "ok": number % 4 != 0})
        for number in range(108)
    ]
    lines += [
        json.dumps({"at": CHANGED + 20 * number, "what": f"later {number}", "ok": number != 7}) for number in range(70)
    ]
    events = tmp_path / "jobs.jsonl"
    events.write_text("\n".join(lines), encoding="utf-8")
    seen = looked(remembered(state, lambda t: {"zombies": stock(t)}), events)
    jobs = row(seen, "job success")
    assert jobs.verdict is Direction.BETTER
    assert jobs.before.value == pytest.approx(0.75)
    assert jobs.after.value == pytest.approx(69 / 70)
    assert seen.jobs_changed is not None
    assert abs(seen.jobs_changed.at - CHANGED) <= 600
    assert seen.outcome.verdict is Holding.HELD
    assert render_verify(seen)["jobs_changed"]["after"]["ended"] >= 60


def test_failures_alone_are_a_rate(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    events = tmp_path / "failures.txt"
    lines = [f"{CHANGED - BEFORE_SECONDS + 60 * number} job {number}" for number in range(180)]
    events.write_text("\n".join(lines), encoding="utf-8")
    jobs = row(looked(remembered(state, lambda t: {"zombies": stock(t)}), events), "job failures")
    assert (jobs.verdict, jobs.after.number) == (Direction.BETTER, 0)


def test_numbers_that_nobody_kept_are_unknown_and_not_zero(tmp_path: Path) -> None:
    seen = looked(remembered(tmp_path, lambda t: {"zombies": stock(t)}))
    resets = row(seen, "network card resets")
    assert (resets.before.value, resets.after.value, resets.verdict) == (None, None, Direction.UNKNOWN)
    assert resets.why


def test_a_moment_in_the_future_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot verify"):
        verify.verify(Asked(str(tmp_path), since=NOW + 5))


def test_a_source_that_cannot_be_reached_is_a_gap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(address: str) -> None:
        raise ObservationError(f"cannot read {address}", "connection refused", "")

    monkeypatch.setattr(timeline, "fetch_json", refuse)
    state = remembered(tmp_path, lambda t: {"zombies": stock(t)})
    seen = verify.verify(Asked(state, since=CHANGED, events=("http://127.0.0.1:1",)))
    assert [gap.fact for gap in seen.gaps] == ["events"]


def test_a_prometheus_is_asked_for_both_times(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def answer(address: str) -> object:
        asked.append(address)
        value = "0.7" if len(asked) == 1 else "0.95"
        values = [[CHANGED + 60 * number, value] for number in range(20)]
        return {"status": "success", "data": {"result": [{"metric": {}, "values": values}]}}

    monkeypatch.setattr(timeline, "fetch_json", answer)
    state = remembered(tmp_path, lambda t: {"zombies": stock(t)})
    seen = verify.verify(
        Asked(state, since=CHANGED, prometheus="http://p", query="success_rate", higher_is_better=True)
    )
    found = row(seen, "success rate asked for")
    assert found.verdict is Direction.BETTER
    assert [found.before.value, found.after.value] == pytest.approx([0.7, 0.95])
    assert "query=success_rate" in asked[0]


def test_windows_of_unlike_length_are_compared_by_rate() -> None:
    import random  # noqa: PLC0415

    def period(seconds: int, per_second: float) -> Period:
        samples = [Sample(n, float(n), "b", {"throttled_seconds": n * per_second}) for n in range(seconds)]
        return Period(samples, "window", 0.0, float(seconds))

    rows = derive_rows(period(3600, 0.1), period(600, 0.1), (), generator=random.Random(1))
    throttled = next(each for each in rows if each.what == "throttling")
    assert throttled.verdict is Direction.SAME
    assert throttled.before.value == pytest.approx(throttled.after.value)
