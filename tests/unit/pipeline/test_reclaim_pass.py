# SPDX-License-Identifier: Apache-2.0
"""`cost.reclaim_pass_seconds`: watched for, remembered by an agent, or a gap that says what would fill it."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.build import ScriptedHost, case, observed, snapshot

from zombiescope.analysis.scan import NOT_WATCHED, RECLAIM_FACT, ReclaimPass, derive_reclaim_pass
from zombiescope.diagnosis.engine import diagnose
from zombiescope.facts.gap import Gap
from zombiescope.facts.history import RECLAIM_SECONDS
from zombiescope.facts.reclaim import ReclaimCalls, ReclaimKind, ReclaimSeen
from zombiescope.history.store import Store
from zombiescope.host.live import LiveHost
from zombiescope.pipeline import scan as pipeline
from zombiescope.pipeline.scan import watch_reclaim_pass
from zombiescope.presenters.scan_json import render_scan
from zombiescope.presenters.scan_text import render_scan_text

NOTHING: list[Any] = [0, 0, 0, 0.0, 0.0, 0.0, None, []]


class Told(ScriptedHost):
    outcome: Any = None

    def experiment(self, name: str, work: object) -> dict[str, Any] | None:
        del work
        outcome: dict[str, Any] | None = self.outcome if name == "reclaim_passes" else None
        return outcome


def text_of(found: ReclaimPass | Gap) -> str:
    seen, file = snapshot(5000), io.StringIO()
    for part in render_scan_text(observed(seen), diagnose(case(seen)), found, explain=False):
        Console(file=file, width=200, color_system=None).print(part)
    return file.getvalue()


def cost_of(found: ReclaimPass | Gap) -> tuple[Any, list[dict[str, str]]]:
    seen = snapshot(5000)
    answer = render_scan(observed(seen), diagnose(case(seen)), reclaim=found)
    return answer["cost"]["reclaim_pass_seconds"], [gap for gap in answer["gaps"] if gap["fact"] == RECLAIM_FACT]


def test_the_mean_of_what_was_seen_and_in_words() -> None:
    host = Told({b"/proc/vmstat": b"pgscan_kswapd 5\n"}, is_live=False)
    limit: list[Any] = [4, 3, 9, 0.5, 0.4, 0.3, None, []]
    host.outcome = {"seconds": 10.0, "kinds": {"direct": NOTHING, "limit": limit}, "unseen": 0}
    found = watch_reclaim_pass(host, 10.0)
    assert isinstance(found, ReclaimPass)
    assert (found.seconds, found.calls, found.watched_seconds) == (0.125, 4, 10.0)
    assert cost_of(found) == (0.125, [])
    assert "one pass of reclaim: 125 ms (on average; it ran 4 times in 10 s)" in text_of(found)
    assert RECLAIM_FACT not in text_of(found)


@pytest.mark.parametrize(
    ("outcome", "why"),
    [
        (
            {"seconds": 10.0, "kinds": {"direct": NOTHING, "limit": NOTHING}, "unseen": 0},
            "nobody had to reclaim in 10 s",
        ),
        ({"gap": ["reclaim", "bpf refused", "CAP_BPF"]}, "bpf refused"),
        ({"kinds": 1}, "the recorded reclaim is not in a form we know"),
        (None, "nothing happens in a folder, and its recording kept no reclaim"),
    ],
)
def test_none_seen_is_null_with_its_reason(outcome: Any, why: str) -> None:
    host = Told({b"/proc/vmstat": b"pgscan_kswapd 5\n"}, is_live=False)
    host.outcome = outcome
    value, gaps = cost_of(watch_reclaim_pass(host, 10.0))
    assert value is None
    assert [gap["reason"] for gap in gaps] == [why]
    assert gaps[0]["hint"]


def test_unwatched_it_says_what_to_type() -> None:
    value, gaps = cost_of(NOT_WATCHED)
    assert (value, len(gaps)) == (None, 1)
    assert "scan --watch 10" in gaps[0]["hint"]
    assert "scan --watch 10" in text_of(NOT_WATCHED)


def test_the_agents_last_is_taken_from_its_history_and_a_window_goes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = LiveHost()
    boot = host.read(b"/proc/sys/kernel/random/boot_id").strip().decode()
    now, store = host.wall_clock(), Store(str(tmp_path))
    for before, boot_id, values in (
        (300, boot, {RECLAIM_SECONDS: 0.5}),
        (200, boot, {RECLAIM_SECONDS: 0.25}),
        (100, "another", {RECLAIM_SECONDS: 9.0}),
        (50, boot, {"zombies": 3.0}),
    ):
        store.add_sample(now - before, boot_id, values)
    store.close()
    monkeypatch.setattr(pipeline, "observe", lambda *_, **__: observed(snapshot(5)))
    seen = pipeline.scan(host, state=bytes(tmp_path))
    assert isinstance(seen.reclaim, ReclaimPass)
    assert (seen.reclaim.seconds, seen.reclaim.calls) == (0.25, None)
    assert seen.reclaim.at == pytest.approx(now - 200, abs=1)
    assert "one pass of reclaim: 250 ms (as the agent saw it last, 20" in text_of(seen.reclaim)
    watched = ReclaimPass(0.75, now, 1, 10.0)
    for told, wanted in ((watched, watched), (Gap(RECLAIM_FACT, "nobody"), seen.reclaim)):
        monkeypatch.setattr(pipeline, "watch_reclaim_pass", lambda *_, told=told: told)
        assert pipeline.scan(host, state=bytes(tmp_path), watch_seconds=10.0).reclaim == wanted
    assert pipeline.scan(host, state=bytes(tmp_path / "none")).reclaim == NOT_WATCHED
    assert "it ran once in 10 s" in text_of(watched)


def test_a_window_of_several_kinds_is_one_mean() -> None:
    kinds = tuple(ReclaimCalls(kind, calls, 0, 1, took, took, took, None) for kind, calls, took in (
        (ReclaimKind.DIRECT, 1, 1.0), (ReclaimKind.LIMIT, 3, 1.0)))  # fmt: skip
    found = derive_reclaim_pass(ReclaimSeen(5.0, kinds), 7.0)
    assert found == ReclaimPass(0.5, 7.0, 4, 5.0)
