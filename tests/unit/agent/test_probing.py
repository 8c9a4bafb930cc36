# SPDX-License-Identifier: Apache-2.0
"""Light probes in the agent's loop: their pace and budget, gaps, refusals and bugs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.build import ScriptedHost, case, snapshot

from zombiescope.agent import probing
from zombiescope.agent.probing import Probing, on_the_beat
from zombiescope.diagnosis.case import NOT_WATCHED, Case
from zombiescope.errors import ObservationError
from zombiescope.facts.agent import MetricSample, ProbeRun, Reading
from zombiescope.facts.gap import Gap
from zombiescope.facts.metric_names import METRICS, PROBE_SECONDS
from zombiescope.host.access import Host
from zombiescope.watching.catalogue import PROBES, Probe
from zombiescope.watching.watch import Teller

ONE = Reading((MetricSample(PROBE_SECONDS, ("x",), 1.0),), {"x": 1.0})


class Scripted(Teller):
    def __init__(self, *script: Reading | Gap | Exception) -> None:
        self.script = list(script)
        self.reads = 0
        self.is_closed = False

    def read(self) -> Reading | Gap:
        self.reads += 1
        step = self.script.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    def fill(self, case: Case) -> Case:
        if self.reads > 3:
            raise KeyError("bug")
        return case._replace(cores=Gap("x", f"{self.reads} readings"))

    def close(self) -> None:
        self.is_closed = True
        raise OSError(5, "refused")


class Told:
    def __init__(self) -> None:
        self.runs: list[tuple[str, ProbeRun, Reading]] = []
        self.complaints: list[str] = []

    def tell(self, name: str, run: ProbeRun, reading: Reading) -> None:
        self.runs.append((name, run, reading))


class Clock:
    """Each question costs `step` seconds; of these, a share is work."""

    def __init__(self, step: float, share: float = 1.0) -> None:
        self.now, self.step, self.share = 0.0, step, share

    def thread_time(self) -> float:
        return self.now * self.share

    def monotonic(self) -> float:
        self.now += self.step
        return self.now


@pytest.fixture
def host() -> Host:
    return ScriptedHost({})


def one(host: Host, opening: Callable[[Host], Scripted | None], seconds: float = 10.0) -> tuple[Probing, Told]:
    told = Told()
    return Probing(host, [Probe("x", seconds, opening)], told.tell, told.complaints.append), told


def test_a_probe_is_read_at_its_pace_and_closed(host: Host) -> None:
    watch = Scripted(ONE, ONE, ONE)
    each, told = one(host, lambda _: watch)
    for now in (0.0, 5.0, 10.0, 19.0, 20.0):
        each.run(now)
    assert watch.reads == 3
    assert each.due == 30.0
    assert [run.gap for _, run, _ in told.runs] == [None] * 3
    assert told.runs[0][2] == ONE
    each.close()
    assert watch.is_closed


@given(st.floats(0, 1e7), st.sampled_from([1.0, 5.0, 10.0, 30.0, 0.7]))
def test_all_beat_by_one_clock(now: float, pace: float) -> None:
    due = on_the_beat(now, pace)
    assert pace * 0.499 <= due - now <= pace * 1.501
    assert on_the_beat(due, pace) == pytest.approx(due + pace)
    assert on_the_beat(due + pace / 50, pace) == pytest.approx(due + pace), "late by a little, the next is in time"


def test_probes_of_one_pace_wake_the_agent_once(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the first reading took, in which modules are loaded."""
    clock = Clock(step=0.006)
    monkeypatch.setattr(probing, "time", clock)
    watches = {name: Scripted(*[ONE] * 60) for name in ("a", "b", "c")}
    told = Told()
    opened = iter(watches.values())
    probes = [Probe(name, pace, lambda _: next(opened)) for name, pace in (("a", 1.0), ("b", 1.0), ("c", 5.0))]
    each = Probing(host, probes, told.tell, told.complaints.append)
    each.run(100.3)
    clock.step = 0.0
    woken = []
    while each.due < 130:
        woken.append(each.due)
        each.run(each.due + 0.01)
    assert woken[3:] == [float(second) for second in range(round(woken[3]), 130)]


def test_a_probe_that_takes_long_is_asked_less_often(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "time", Clock(step=1.0))
    each, told = one(host, lambda _: Scripted(ONE))
    each.run(100.0)
    assert told.runs[0][1].seconds == 1.0
    assert each.due == 100.0 + 1.0 / probing.MOST_SHARE


def test_opening_a_probe_does_not_put_off_its_next_reading(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock(step=0.0)
    monkeypatch.setattr(probing, "time", clock)

    def opening(_: Host) -> Scripted:
        clock.now += 3.0  # a program that the kernel checks and compiles, once
        return Scripted(ONE)

    each, told = one(host, opening)
    each.run(100.0)
    assert told.runs[0][1].seconds == 3.0
    assert each.due == 110.0


def test_a_probe_that_had_to_wait_is_asked_in_time(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probing, "time", Clock(step=1.0, share=0.0001))
    each, told = one(host, lambda _: Scripted(ONE))
    each.run(100.0)
    assert told.runs[0][1].seconds == 1.0
    assert each.due < 100.0 + 60


def test_what_fails_is_a_gap_and_the_next_reading_is_made(host: Host) -> None:
    refusals: list[Gap | Exception] = [
        Gap("x", "not today"),
        OSError(13, "Permission denied"),
        ObservationError("cannot look", "it is gone", "look elsewhere"),
        KeyError("bug"),
        KeyError("bug"),
    ]
    watch = Scripted(*refusals, ONE)
    each, told = one(host, lambda _: watch)
    for step in range(6):
        each.run(step * 10.0)
    reasons = [run.gap.reason if run.gap else None for _, run, _ in told.runs]
    assert reasons[:3] == ["not today", "permission denied", "cannot look: it is gone"]
    assert reasons[5] is None
    assert told.complaints == ["probe x: a bug of zombiescope: KeyError: 'bug'"], "said once"


def test_the_findings_are_told_by_those_whose_last_reading_was_made(host: Host) -> None:
    each, told = one(host, lambda _: Scripted(ONE, OSError(13, "Permission denied"), ONE, ONE))
    reasons = []
    for step in range(4):
        each.run(step * 10.0)
        seen = each.fill(case(snapshot())).cores
        reasons.append(seen.reason if isinstance(seen, Gap) else "")
    assert reasons == ["1 readings", NOT_WATCHED.reason, "3 readings", NOT_WATCHED.reason]
    assert told.complaints == ["probe x: a bug of zombiescope: KeyError: 'bug'"], "and the agent goes on"


def test_one_that_is_refused_is_opened_again_later_and_one_that_is_not_there_never(host: Host) -> None:
    def refused(_: Host) -> Scripted:
        raise ObservationError("cannot open", "refused", "")

    each, told = one(host, refused)
    each.run(0.0)
    assert each.due == 300.0
    assert told.runs[0][2].gap == Gap("x", "cannot open: refused", "")
    nothing, told = one(host, lambda _: None)
    nothing.run(0.0)
    assert nothing.due == float("inf")
    assert not told.runs


def test_the_probes_of_the_catalogue_have_names_of_their_own() -> None:
    names = [probe.name for probe in PROBES]
    assert len(names) == len(set(names))
    assert not set(names) & {"census", "events", "walk", "residual", "sweep", "empty", "restarts", "history"}
    assert len({metric.name for metric in METRICS}) == len(METRICS)
