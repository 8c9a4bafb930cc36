# SPDX-License-Identifier: Apache-2.0
"""One axis of all sources: nothing twice, nothing compared with time that nobody watched; sweeps and restarts are causes."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from tests.scenarios.facts import NOW, case, cores, kernel_log, reset, stretch

from zombiescope.analysis.comparing import Correlation
from zombiescope.facts.gap import Gap
from zombiescope.facts.history import Interval
from zombiescope.facts.reclaim import SweepBurst, SweepersSeen
from zombiescope.history.store import Store
from zombiescope.host.recording import Answer, ReplayHost
from zombiescope.pipeline.timeline import Past, Told, tell, without

HOUR = 3600.0
QUIET = ReplayHost("recorded", [])


def journal(*times: float) -> ReplayHost:
    outcome = {"restarts": [[at, "loop.service"] for at in times]}
    return ReplayHost("recorded", [Answer(0.0, "experiment", b"restart-times", outcome)])


def history(folder: Path, events: list[tuple[float, str, str]], times: list[float]) -> Past:
    store = Store(os.fspath(folder), days=30, most_bytes=1 << 24)
    written = [(at, None) for at in times] + [(event[0], event) for event in events]
    for at, event in sorted(written, key=lambda each: each[0]):
        if event is None:
            store.add_sample(at, "boot", {"zombies": 10.0})
        else:
            store.add_happening(at, "boot", event[1], event[2])
    store.close()
    return Past(None, os.fsencode(folder), 10 * HOUR)


def pair(told: Told, cause: str, effect: str) -> Correlation:
    return {(each.cause, each.effect): each for each in told.correlations}[cause, effect]


def test_sweeps_and_restarts_in_a_history_are_causes_under_the_same_test(tmp_path: Path) -> None:
    lot = random.Random(3)
    begin = NOW - 9 * HOUR
    sweeps = [begin + 600 * number + lot.uniform(0, 200) for number in range(50)]
    restarts = [begin + 600 * number + lot.uniform(0, 599) for number in range(50)]
    events = [(at, "stat-sweep", "kubelet: 4.0 s in the kernel") for at in sweeps]
    events += [(at, "unit-restarted", "ecs.service: 6 cgroups born") for at in restarts]
    events += [(at + 3, "core-saturated", "core 3: 4.0 s, 98% system") for at in sweeps[::3]]
    events += [(at + 9, "nic-reset", "eth0: poll starvation") for at in sweeps[::3]]
    past = history(tmp_path, events, [begin + 10 * number for number in range(3240)])
    told = tell(QUIET, case(kernel_log=Gap("kernel_log", "refused"), cores=Gap("cores", "not watched")), past)
    for effect in ("saturated core", "nic reset"):
        found = pair(told, "sweep", effect)
        assert (found.cases, found.preceded) == (17, 17)
        assert found.is_telling
        assert found.lift is not None
        assert found.lift > 5
        assert not pair(told, "restart", effect).is_telling, "it comes and goes by itself"
    assert pair(told, "saturated core", "nic reset").is_telling
    assert ("nic reset", "saturated core") not in {(each.cause, each.effect) for each in told.correlations}


def test_what_two_sources_saw_is_there_once(tmp_path: Path) -> None:
    seen = case(kernel_log=kernel_log(*reset(50), *reset(30)), cores=cores(stretch(1.0), seconds=10.0))
    events = [
        (NOW - 3000, "nic-reset", "eth0: poll starvation"),
        (NOW + 2, "core-saturated", "core 3: 1.0 s, 98% system"),
        (NOW - 1000, "core-saturated", "core 1: 2.0 s, 98% system"),
    ]
    told = tell(QUIET, seen, history(tmp_path, events, [NOW - 3600 + 10 * number for number in range(361)]))
    assert len(told.timeline.times("nic reset")) == 2
    assert told.timeline.times("saturated core") == (NOW - 1000, NOW + 2)


def test_an_agent_that_was_down_watched_nothing_meanwhile(tmp_path: Path) -> None:
    times = [NOW - 8000 + 10 * number for number in range(100)] + [NOW - 2000 + 10 * number for number in range(200)]
    told = tell(QUIET, case(), history(tmp_path, [(NOW - 7500, "stat-sweep", "kubelet: 1.0 s")], times))
    before, after = told.timeline.watched["sweep"]
    assert (before, after.begin) == (Interval(NOW - 8000, NOW - 7010), NOW - 2000)


def test_a_minute_whose_events_were_not_all_kept_is_not_watched(tmp_path: Path) -> None:
    events = [(NOW - 500, "core-saturated", "12 more stretches were not kept one by one")]
    past = history(tmp_path, events, [NOW - 1000 + 10 * number for number in range(100)])
    told = tell(QUIET, case(), past)
    assert told.timeline.times("saturated core") == ()
    assert told.timeline.watched["saturated core"][:2] == (
        Interval(NOW - 1000, NOW - 560),
        Interval(NOW - 500, NOW - 10),
    )


def test_the_window_and_the_journal_give_sweeps_and_restarts_without_an_agent() -> None:
    bursts = tuple(SweepBurst(NOW + second, "kubelet", 0.5) for second in (1, 6))
    seen = case(sweepers=SweepersSeen(NOW + 10, 10.0, (), bursts))
    told = tell(journal(NOW - 900, NOW - 300), seen, Past())
    assert told.timeline.times("sweep") == (NOW + 1, NOW + 6)
    assert told.timeline.times("restart") == (NOW - 900, NOW - 300)
    assert told.timeline.watched["restart"][0].begin == NOW - 900
    assert told.gaps == ()


def test_restarts_that_cannot_be_known_are_a_gap_where_somebody_asked(tmp_path: Path) -> None:
    past = history(tmp_path, [], [NOW - 100, NOW - 90])
    assert [gap.fact for gap in tell(QUIET, case(), past).gaps] == ["timeline.restarts"]
    garbled = ReplayHost("recorded", [Answer(0.0, "experiment", b"restart-times", {"restarts": [["x"]]})])
    (gap,) = tell(garbled, case(), past).gaps
    assert "not in a form we know" in gap.reason


@pytest.mark.parametrize(
    ("hole", "left"),
    [((2, 3), [(1, 2), (3, 4)]), ((0, 2), [(2, 4)]), ((0, 9), []), ((5, 6), [(1, 4)]), ((1, 4), [])],
)
def test_a_hole_is_cut_out(hole: tuple[float, float], left: list[tuple[float, float]]) -> None:
    assert list(without((Interval(1, 4),), [Interval(*hole)])) == left
