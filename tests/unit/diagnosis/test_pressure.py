# SPDX-License-Identifier: Apache-2.0
"""`reclaim-pressure` and `cpu-throttling`, from looks a second apart."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from tests.scenarios.facts import case, pressure, reclaim

from zombiescope.analysis.pressure import derive_throttled, point_between, pressure_of
from zombiescope.diagnosis.finding import Verdict
from zombiescope.diagnosis.rules import cpu_throttling, reclaim_pressure
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap
from zombiescope.facts.reclaim import PressureLook, PressureSeen, Throttle, ThrottledGroup

GAP = Gap("x", "refused")


def derive_pressure(
    looks: list[PressureLook], throttled: tuple[ThrottledGroup, ...] | Gap, cores: int | None
) -> PressureSeen:
    points = (point_between(before, after) for before, after in pairwise(looks))
    return pressure_of(tuple(filter(None, points)), looks[0].at, looks[-1], throttled, cores)


def look(second: int, **vmstat: int) -> PressureLook:
    return PressureLook(100.0 + second, float(second), vmstat, {"memory.some": second * 0.2}, second * 0.1)


def test_rates_on_one_axis_and_limits_are_what_nobody_else_scanned() -> None:
    names = ("pgscan_kswapd", "pgscan_direct", "pgscan_anon", "pgscan_file", "pgmajfault")
    rows = ((0, 0, 0, 0, 0), (100, 10, 50, 360, 4), (100, 10, 50, 360, 2))
    looks = [look(i, **dict(zip(names, row, strict=True))) for i, row in enumerate(rows)]
    seen = derive_pressure(looks, (), 4)
    first, second = seen.points
    assert (first.kswapd_pages, first.direct_pages, first.limit_pages, first.major_faults) == (100, 10, 300, 4)
    assert (second.limit_pages, second.major_faults) == (0, None), "a counter that ran backwards says nothing"
    assert [point.at for point in seen.points] == [100.0, 101.0]
    assert seen.mean("limit_pages") == 150
    assert seen.mean("kswapd_share") == pytest.approx(0.1)
    assert seen.stall("memory.some") == pytest.approx(0.2)


def test_stalls_by_cgroup_are_on_the_same_axis() -> None:
    totals = ({b"/a": 0.0, b"/b": 5.0}, {b"/a": 0.5, b"/b": 1.0}, {b"/a": 0.75, b"/b": 1.1, b"/new": 9.0})
    looks = [
        look(i)._replace(groups={path: {"memory.some": total} for path, total in each.items()})
        for i, each in enumerate(totals)
    ]
    seen = derive_pressure(looks, (), 4)
    assert [point.groups[b"/a"] for point in seen.points] == [{"memory.some": 0.5}, {"memory.some": 0.25}]
    assert seen.points[0].groups[b"/b"] == {}, "another cgroup of the same name"
    assert seen.groups == (b"/a", b"/b")
    assert seen.group_stall(b"/a", "memory.some") == pytest.approx(0.375)
    assert seen.group_stall(b"/b", "memory.some") == pytest.approx(0.1)
    assert seen.group_stall(b"/new", "memory.some") is None
    finding = reclaim_pressure.judge(case(pressure=seen, reclaim=reclaim()))
    told = {item.fact: item.value for item in finding.evidence if "].memory.some" in item.fact}
    assert told == {"stalled[/a].memory.some": 0.375, "stalled[/b].memory.some": 0.1}


def test_where_no_cgroup_tells_there_is_a_gap() -> None:
    on_v1 = Gap("pressure.points[].groups", "cgroup v1 keeps no pressure by cgroup")
    seen = derive_pressure([look(0)._replace(groups=on_v1), look(1)._replace(groups=on_v1)], (), 4)
    assert seen.groups == on_v1
    assert seen.points[0].groups == {}
    assert seen.group_stall(b"/a", "memory.some") is None


def test_an_old_kernel_does_not_tell_limits_and_a_gap_tells_nothing() -> None:
    old = derive_pressure([look(0, pgscan_kswapd=0, pgscan_direct=0), look(1, pgscan_kswapd=9, pgscan_direct=0)], (), 4)
    assert old.points[0].limit_pages is None
    blind = [each._replace(vmstat=GAP, stalls=GAP, kswapd_seconds=None) for each in (look(0), look(1))]
    seen = derive_pressure(blind, GAP, None)
    assert seen.mean("direct_pages") is None
    assert seen.stall("memory.some") is None
    assert seen.gaps == (GAP, GAP, GAP)


def test_quotas_between_two_looks() -> None:
    before = {b"/a": Throttle(100, 40, 2.0), b"/again": Throttle(90, 9, 1.0), b"/idle": Throttle(5, 0, 0.0)}
    after = {
        b"/a": Throttle(200, 90, 3.5),
        b"/again": Throttle(10, 1, 0.1),
        b"/idle": Throttle(5, 0, 0.0),
        b"/n": Throttle(4, 4, 1.0),
    }
    assert derive_throttled(before, after) == (
        ThrottledGroup(b"/n", 4, 4, 1.0), ThrottledGroup(b"/a", 100, 50, 1.5), ThrottledGroup(b"/again", 10, 1, 0.1),
    )  # fmt: skip
    assert derive_throttled(GAP, after) == GAP
    assert derive_throttled(before, GAP) == GAP


@pytest.mark.parametrize(
    ("facts", "verdict", "severity"),
    [
        ({}, Verdict.ABSENT, Severity.OK),
        ({"pressure": pressure(kswapd=0.14)}, Verdict.ABSENT, Severity.OK),
        ({"pressure": pressure(kswapd=0.15)}, Verdict.PRESENT, Severity.WARNING),
        ({"pressure": pressure(kswapd=0.7)}, Verdict.PRESENT, Severity.CRITICAL),
        ({"reclaim": reclaim(500, 400_000, 2.0, 0.03)}, Verdict.PRESENT, Severity.WARNING),
        ({"pressure": pressure(stall=0.2)}, Verdict.PRESENT, Severity.WARNING),
        ({"pressure": pressure(stall=0.6)}, Verdict.PRESENT, Severity.CRITICAL),
        ({"reclaim": GAP}, Verdict.UNKNOWN, Severity.UNKNOWN),
        ({"pressure": GAP}, Verdict.UNKNOWN, Severity.UNKNOWN),
        ({"reclaim": GAP, "pressure": pressure(kswapd=0.2)}, Verdict.PRESENT, Severity.WARNING),
        ({"pressure": pressure()._replace(points=())}, Verdict.UNKNOWN, Severity.UNKNOWN),
    ],
)
def test_reclaim_pressure(facts: dict[str, Any], verdict: Verdict, severity: Severity) -> None:
    finding = reclaim_pressure.judge(case(**facts))
    assert (finding.verdict, finding.severity) == (verdict, severity)
    assert finding.summary


HALF = ThrottledGroup(b"/kubepods/p\n1", 100, 50, 4.2)


@pytest.mark.parametrize(
    ("groups", "verdict", "severity"),
    [
        ((), Verdict.ABSENT, Severity.OK),
        ((ThrottledGroup(b"/a", 100, 24, 1.0),), Verdict.ABSENT, Severity.OK),
        ((HALF,), Verdict.PRESENT, Severity.WARNING),
        ((ThrottledGroup(b"/a", 100, 75, 9.0), HALF), Verdict.PRESENT, Severity.CRITICAL),
        ((ThrottledGroup(b"/short", 4, 4, 1.0),), Verdict.ABSENT, Severity.OK),
    ],
)
def test_throttling(groups: tuple[ThrottledGroup, ...], verdict: Verdict, severity: Severity) -> None:
    finding = cpu_throttling.judge(case(pressure=pressure(*groups)))
    assert (finding.verdict, finding.severity) == (verdict, severity)


def test_throttling_names_the_cgroup_and_a_gap_is_unknown() -> None:
    finding = cpu_throttling.judge(case(pressure=pressure(HALF, HALF._replace(path=b"/b"))))
    assert finding.summary == (
        r"/kubepods/p\x0a1 ran out of its quota in 50 of 100 periods and waited 4.2 s, and 1 more"
    )
    assert cpu_throttling.judge(case(pressure=GAP)).verdict is Verdict.UNKNOWN
    assert cpu_throttling.judge(case(pressure=pressure()._replace(throttled=GAP))).verdict is Verdict.UNKNOWN
