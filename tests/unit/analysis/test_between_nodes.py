# SPDX-License-Identifier: Apache-2.0
"""Two groups of nodes compared: against every way to choose, against worlds with and without a difference."""

from __future__ import annotations

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.analysis.exact_test import compare_groups, least_p, median_range, rank_sum_p, shift_range

VALUES = st.lists(st.integers(0, 5), min_size=1, max_size=6)


def by_hand(one: list[int], other: list[int]) -> float:
    both = sorted([*one, *other])
    ranks = [both.index(value) + (both.count(value) + 1) / 2 for value in [*one, *other]]
    mean = len(one) * sum(ranks) / len(ranks)
    seen = abs(sum(ranks[: len(one)]) - mean) - 1e-9
    far = [abs(sum(chosen) - mean) >= seen for chosen in itertools.combinations(ranks, len(one))]
    return sum(far) / len(far)


@given(VALUES, VALUES)
def test_the_rank_test_counts_every_way_to_choose(one: list[int], other: list[int]) -> None:
    assert rank_sum_p(one, other) == pytest.approx(by_hand(one, other))


def test_many_nodes_are_nearly_as_exact() -> None:
    dice = random.Random(4)
    for _ in range(20):
        one, other = [dice.gauss(0.6, 1) for _ in range(18)], [dice.gauss(0, 1) for _ in range(22)]
        nearly = rank_sum_p([*one, 0.011], [*other, -0.013])  # one more each: too many for the exact test
        assert nearly == pytest.approx(rank_sum_p(one, other), rel=0.6, abs=0.02)


def test_groups_that_do_not_overlap_have_the_least_chance() -> None:
    assert (
        rank_sum_p([1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11])
        == pytest.approx(least_p(5, 6))
        == pytest.approx(2 / math.comb(11, 5))
    )
    assert rank_sum_p([1.0] * 50, [1.0] * 60) == 1.0


def test_ranges_hold_the_truth_about_as_often_as_they_say() -> None:
    dice = random.Random(2)
    held = [0, 0]
    for _ in range(400):
        one, other = [dice.gauss(1, 1) for _ in range(12)], [dice.gauss(0, 1) for _ in range(20)]
        low, middle, high = shift_range(one, other)
        assert low <= middle <= high
        around = median_range(one)
        assert around is not None
        held[0] += low <= 1 <= high
        held[1] += around[0] <= 1 <= around[2]
    assert all(0.93 <= each / 400 <= 0.995 for each in held)


def test_very_many_nodes_are_thinned_and_say_the_same() -> None:
    dice = random.Random(3)
    one, other = [dice.gauss(0.5, 1) for _ in range(5000)], [dice.gauss(0, 1) for _ in range(3000)]
    low, middle, high = shift_range(one, other)
    assert middle == pytest.approx(0.5, abs=0.08)
    assert 0.02 < high - low < 0.2


def world(dice: random.Random, nodes: int, functions: int, rise: float) -> list[tuple[list[float], list[float]]]:
    """Nodes that have habits: busy ones are busier in everything. The first function is hot on the first group."""
    loads = [dice.lognormvariate(0, 0.3) for _ in range(2 * nodes)]
    rows = [[0.02 * load * dice.lognormvariate(0, 0.3) for load in loads] for _ in range(functions)]
    rows[0][:nodes] = [value + rise for value in rows[0][:nodes]]
    return [(row[:nodes], row[nodes:]) for row in rows]


def test_a_hot_function_is_found_and_hardly_anything_where_none_is() -> None:
    dice = random.Random(5)
    for _ in range(20):
        found = compare_groups(world(dice, 25, 40, 0.03), 25, 25)
        assert found.shifts[0].is_found
        assert found.shifts[0].low < 0.03 < found.shifts[0].high + 0.01
    calls = [any(each.is_found for each in compare_groups(world(dice, 25, 40, 0.0), 25, 25).shifts) for _ in range(60)]
    assert sum(calls) <= 3


def test_too_few_nodes_say_so() -> None:
    assert "at least 5 nodes" in compare_groups([([1.0] * 4, [2.0] * 9)], 4, 9).too_few
    alone = compare_groups(
        [([0.1 * n for n in range(5)], [5.0 + n for n in range(5)])] + [([1.0] * 5, [1.0] * 5)] * 40, 5, 5
    )
    assert alone.too_few == ""
    assert "once in 126 times" in alone.unsure
    assert not any(each.is_found for each in alone.shifts)
    assert median_range([1.0] * 5) is None
