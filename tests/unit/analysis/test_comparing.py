# SPDX-License-Identifier: Apache-2.0
"""Chances of counts, shares and bursts: exact where they can be, and honest where little was seen."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zombiescope.analysis.comparing import (
    Direction,
    compare_blocks,
    compare_counts,
    compare_shares,
    rate_range,
    share_change,
)


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        ((60, 3600), (0, 600), Direction.BETTER),
        ((6, 3600), (0, 600), Direction.SAME),  # one was to be expected: none is no news
        ((6, 3600), (1, 600), Direction.SAME),
        ((0, 3600), (1, 600), Direction.SAME),
        ((0, 3600), (4, 600), Direction.WORSE),
        ((0, 3600), (0, 600), Direction.SAME),
        ((5, 0), (5, 600), Direction.SAME),
    ],
)
def test_counts(before: tuple[int, float], after: tuple[int, float], change: Direction) -> None:
    assert compare_counts(*before, *after).change is change


def test_the_range_of_a_rate_is_that_of_the_tables() -> None:
    """Garwood's exact interval: 0 of them may be up to 3.69, 10 of them 4.80 to 18.39."""
    assert [round(rate, 2) for rate in rate_range(0, 1.0)] == [0.0, 3.69]
    assert [round(rate, 2) for rate in rate_range(10, 1.0)] == [4.8, 18.39]
    assert rate_range(5, 0.0)[1] == float("inf")


def test_shares_by_fisher() -> None:
    """The lady tasting tea: three of four cups each, one-sided 17 in 70."""
    assert compare_shares((3, 4), (1, 4)).lower == pytest.approx(17 / 70)
    assert compare_shares((25, 100), (1, 60)).change is Direction.BETTER
    assert compare_shares((1, 100), (15, 60)).change is Direction.WORSE
    assert compare_shares((0, 0), (1, 4)).change is Direction.SAME


@given(st.integers(0, 30), st.integers(0, 30), st.floats(1, 1e4), st.floats(1, 1e4))
def test_chances_are_chances(before: int, after: int, first: float, last: float) -> None:
    found = compare_counts(before, first, after, last)
    assert 0 <= found.lower <= 1 + 1e-9
    assert -1e-9 <= found.higher <= 1 + 1e-9
    assert found.lower + found.higher >= 1 - 1e-6


def test_the_same_bursts_are_called_the_same_nine_times_of_ten() -> None:
    """Spikes every three minutes, before and after, at any moment of their rhythm."""
    generator, wrong = random.Random(7), 0
    for begin in range(60):
        spikes = [(60.0, 9.0 if (minute + begin) % 3 == 0 else 0.1 * generator.random()) for minute in range(130)]
        wrong += compare_blocks(spikes[:120], spikes[120:], generator).change is not Direction.SAME
    assert wrong <= 6


def test_bursts_that_stopped_are_better() -> None:
    spikes = [(60.0, 9.0 if minute % 3 == 0 else 0.1) for minute in range(120)]
    calm = [(60.0, 0.1)] * 10
    assert compare_blocks(spikes, calm, random.Random(1)).change is Direction.BETTER
    assert compare_blocks(calm * 12, [(60.0, 5.0)] * 10, random.Random(1)).change is Direction.WORSE
    assert compare_blocks([], calm, random.Random(1)).change is Direction.SAME


def outcomes(*parts: tuple[int, float], seed: int = 3) -> list[tuple[float, bool]]:
    generator = random.Random(seed)
    shares = [share for number, share in parts for _ in range(number)]
    return [(1000.0 + 60 * place, generator.random() < share) for place, share in enumerate(shares)]


def test_the_moment_at_which_a_success_rate_changed() -> None:
    found = share_change(outcomes((120, 0.97), (80, 0.6)))
    assert found is not None
    assert abs(found.at - (1000 + 60 * 120)) <= 60 * 15
    assert found.before[0] / found.before[1] > 0.9
    assert found.after[0] / found.after[1] < 0.75


def test_a_rate_that_did_not_change_has_no_moment() -> None:
    wrong = sum(share_change(outcomes((150, 0.9), seed=seed)) is not None for seed in range(60))
    assert wrong <= 3
    assert share_change([]) is None
    assert share_change([(1.0, True)] * 40) is None


@settings(max_examples=50)
@given(st.lists(st.booleans(), max_size=60))
def test_any_outcomes_have_a_change_or_none(good: list[bool]) -> None:
    found = share_change([(float(place), each) for place, each in enumerate(good)])
    if found is not None:
        assert found.before[1] + found.after[1] == len(good)
        assert found.before[0] + found.after[0] == sum(good)
