# SPDX-License-Identifier: Apache-2.0
"""Bursts of those who read statistics, and units that begin again: told once, with their time, and never too many."""

from __future__ import annotations

from zombiescope.analysis.looping import UnitStarts
from zombiescope.analysis.zombie_cost import SweepBursts
from zombiescope.facts.lifecycle import Counts
from zombiescope.facts.reclaim import SweepBurst


def kubelet(ticks: int, process: int = 7) -> dict[int, tuple[str, int, int]]:
    return {process: ("kubelet", 0, ticks)}


def test_a_burst_begins_with_the_look_before_and_ends_with_a_quiet_one() -> None:
    watch = SweepBursts(100)
    looks = [(10.0, 0), (11.0, 5), (12.0, 65), (13.0, 150), (14.0, 152)]
    ended = [each for at, ticks in looks for each in watch.take(at, kubelet(ticks))]
    assert ended == [SweepBurst(11.0, "kubelet", 1.45)]
    assert watch.unfinished == ()


def test_one_that_is_not_over_is_known_as_such() -> None:
    watch = SweepBursts(100)
    assert [watch.take(at, kubelet(ticks)) for at, ticks in ((1.0, 0), (2.0, 90))] == [(), ()]
    assert watch.unfinished == (SweepBurst(1.0, "kubelet", 0.9),)


def test_a_process_that_came_or_went_and_a_clock_that_went_back_say_nothing() -> None:
    watch = SweepBursts(100)
    watch.take(1.0, kubelet(0))
    assert watch.take(2.0, kubelet(50_000, process=8)) == ()
    assert watch.unfinished == (), "it had those before it was seen"
    assert watch.take(1.5, kubelet(90_000, process=8)) == ()
    assert watch.unfinished == ()
    assert watch.take(2.5, {8: ("kubelet", 0, 5)}) == (), "another process of the same number"
    assert watch.unfinished == ()


def test_the_first_birth_is_a_start_and_those_after_it_are_told_once_a_minute() -> None:
    starts = UnitStarts()
    born = {"unit:loop.service": Counts(births=1), "pod:x": Counts(births=9), "unit:old.service": Counts(deaths=1)}
    told = [starts.take(float(at), born) for at in range(0, 130, 10)]
    assert [bool(each) for each in told] == [at in (10, 70) for at in range(0, 130, 10)]
    (first,), (second,) = told[1], told[7]
    assert (first.what, first.detail, first.at) == ("unit-restarted", "loop.service: 1 cgroup born", 10.0)
    assert second.detail == "loop.service: 6 cgroups born"


def test_units_without_end_are_not_remembered_without_end() -> None:
    starts = UnitStarts()
    for number in range(600):
        starts.take(float(number), {f"unit:run-{number}.service": Counts(births=2)})
    told = starts.take(1e4, {f"unit:run-{number}.service": Counts(births=1) for number in range(600)})
    assert len(told) == 512
