# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from tests.build import census, snapshot

from zombiescope.analysis.scan import KernelCost, ParentShare, derive_kernel_cost, derive_population, derive_scan
from zombiescope.facts.cgroups import Look, MemoryUse, Residuals, Shape
from zombiescope.facts.gap import Gap

SMALL, LARGE = MemoryUse(1, 0, 0, None, 0), MemoryUse(0, 100, 5, 7, 900)


def test_the_look_with_the_fewest_zombies_counts() -> None:
    seen = census(7)._replace(looks=(Look(20, 10), Look(14, 9), Look(30, 12)))
    population = derive_population(seen)
    assert (population.counted, population.live, population.zombies) == (14, 9, 5)
    assert population.ratio == pytest.approx(14 / 9)


def test_unevictable_pages_are_counted_where_they_are_and_not_twice() -> None:
    assert LARGE.bytes_held == 112
    assert SMALL.bytes_held == 1


@pytest.mark.parametrize(
    ("cpus", "nodes", "each"),
    [(1, 1, 14_000 + 2_030), (2, 1, 14_000 + 2 * 2_030), (4, 2, 14_000 + 1_500 + 4 * 2_560)],
)
def test_kernel_memory_grows_with_possible_cpus_and_nodes(cpus: int, nodes: int, each: int) -> None:
    cost = derive_kernel_cost(1000, Shape(cpus, nodes))
    assert isinstance(cost, KernelCost)
    assert cost.bytes_per_zombie == each
    assert cost.total_bytes == 1000 * each


@pytest.mark.parametrize(
    "shape", [Shape(None, 1), Shape(1, None), Shape(None, None, (Gap("cost.kernel_bytes", "why"),))]
)
def test_kernel_memory_is_unknown_without_the_size_of_the_machine(shape: Shape) -> None:
    cost = derive_scan(snapshot(5, shape=shape)).kernel_cost
    assert isinstance(cost, Gap)
    assert cost.fact == "cost.kernel_bytes"


def parents(**changes: Any) -> tuple[ParentShare, ...] | Gap:
    return derive_scan(snapshot(**changes)).parents


def test_parents_are_those_of_the_kernel_where_it_counts_them() -> None:
    residuals = Residuals({b"/a": SMALL, b"/other": LARGE}, frozenset({b"/b"}))
    found = parents(zombies=5, parents={b"/b": 1, b"/a": 4}, residuals=residuals)
    assert found == (ParentShare(b"/a", 4, SMALL), ParentShare(b"/b", 1, None))


def test_parents_are_those_with_bytes_where_it_does_not_largest_first() -> None:
    residuals = Residuals({b"/a": SMALL, b"/b": LARGE, b"/c": SMALL}, frozenset(), frozenset({b"/g"}))
    found = parents(zombies=5, residuals=residuals)
    assert not isinstance(found, Gap)
    assert [share.path for share in found] == [b"/b", b"/a", b"/c", b"/g"]
    assert found[-1] == ParentShare(b"/g", None, None)


def test_no_zombies_have_no_parents_whatever_else_is_unknown() -> None:
    assert parents(zombies=0, residuals=Gap("parents[].bytes", "left out")) == ()


def test_zombies_without_bytes_have_unknown_parents_and_not_none() -> None:
    found = parents(zombies=5, residuals=Residuals({}, frozenset()))
    assert isinstance(found, Gap)
    assert found.hint


def test_without_counts_and_bytes_the_reason_is_kept() -> None:
    gap = Gap("parents[].bytes", "left out by --no-bytes")
    assert parents(zombies=5, residuals=gap) == gap
    assert parents(zombies=5, parents={b"/a": 5}, residuals=gap) == (ParentShare(b"/a", 5, None),)


def test_without_a_census_nothing_is_derived_from_it() -> None:
    gap = Gap("memcg.counted", "no row")
    scan = derive_scan(snapshot(census=gap))
    assert (scan.population, scan.parents, scan.kernel_cost) == (gap, gap, gap)
    assert not isinstance(scan.sweep, Gap)


def test_parents_never_sum_to_more_than_the_total() -> None:
    """A cgroup that dies between the total and its parent's count is on its way, as one gone in the other look is."""
    found = derive_scan(snapshot(13, parents={b"/a": 12, b"/b": 2})).parents
    assert not isinstance(found, Gap)
    assert [(share.path, share.zombies) for share in found] == [(b"/a", 11), (b"/b", 2)]
    found = derive_scan(snapshot(1, parents={b"/a": 2, b"/b": 1})).parents
    assert not isinstance(found, Gap)
    assert [(share.path, share.zombies) for share in found] == [(b"/b", 1)]
