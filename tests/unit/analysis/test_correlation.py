# SPDX-License-Identifier: Apache-2.0
"""Correlation: none among independent events, a small p for a real one, and silence about too few cases."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zombiescope.analysis.comparing import LEAST_CASES, Correlation, common, derive_correlation, joined
from zombiescope.facts.history import Interval

DAY = (Interval(0.0, 86_400.0),)


def correlate(causes: list[float], effects: list[float], lag: float = 30.0, seed: int = 1) -> Correlation:
    return derive_correlation(("sweep", causes), ("reset", effects), DAY, lag, random.Random(seed))


def test_effects_that_follow_are_told() -> None:
    lot = random.Random(7)
    causes = [lot.uniform(0, 86_400) for _ in range(40)]
    effects = [at + lot.uniform(0, 20) for at in causes[:12]]
    found = correlate(causes, effects)
    assert (found.cases, found.preceded) == (12, 12)
    assert found.lift is not None
    assert found.lift > 20
    assert found.p_value is not None
    assert found.p_value <= 0.01
    assert found.is_telling


def test_effects_before_their_cause_are_not() -> None:
    causes = [3600.0 * hour for hour in range(1, 24)]
    found = correlate(causes, [at - 60 for at in causes])
    assert found.preceded == 0
    assert not found.is_telling


def test_independent_events_give_an_even_p() -> None:
    """Over many draws p must not be small more often than it says."""
    small = 0
    for seed in range(200):
        lot = random.Random(seed)
        causes = [lot.uniform(0, 86_400) for _ in range(200)]
        effects = [lot.uniform(0, 86_400) for _ in range(10)]
        found = correlate(causes, effects, 120.0, seed + 1000)
        assert found.p_value is not None
        small += found.p_value <= 0.05
    assert small <= 20, "one in twenty is ten of 200; chance of more than 20 is below one in a thousand"


@pytest.mark.parametrize("cases", range(LEAST_CASES))
def test_fewer_than_five_cases_have_no_p(cases: int) -> None:
    found = correlate([100.0, 200.0], [110.0 + 500 * number for number in range(cases)])
    assert found.cases == cases
    assert found.p_value is None
    assert not found.is_telling


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-1e5, 2e5), max_size=30),
    st.lists(st.floats(-1e5, 2e5), max_size=30),
    st.floats(0, 1e5),
    st.integers(0, 9),
)
def test_numbers_stay_in_their_bounds(causes: list[float], effects: list[float], lag: float, seed: int) -> None:
    found = correlate(causes, effects, lag, seed)
    assert 0 <= found.preceded <= found.cases <= len(effects)
    assert found.chance is None or 0 <= found.chance <= 1
    assert found.p_value is None or 0 < found.p_value <= 1
    assert found == correlate(list(reversed(causes)), list(reversed(effects)), lag, seed)


def test_nothing_watched_says_nothing() -> None:
    found = derive_correlation(("a", [1.0]), ("b", [1.0]), (Interval(1.0, 1.0),), 5.0, random.Random(1))
    assert (found.chance, found.lift, found.p_value) == (None, None, None)


def test_time_that_nobody_watched_is_no_control() -> None:
    """An hour in which both were watched, in two halves a day apart: the day between does not make the cause look rare."""
    halves = (Interval(0.0, 1_800.0), Interval(88_200.0, 90_000.0))
    causes = [60.0 * minute for minute in range(30)] + [88_200 + 60.0 * minute for minute in range(30)]
    effects = [at + 20 for at in causes[::6]]
    found = derive_correlation(("sweep", causes), ("reset", effects), halves, 30.0, random.Random(1))
    assert found.chance == pytest.approx(0.5, abs=0.02), "a cause a minute, a lag of half a minute"
    assert found.lift == pytest.approx(2.0, abs=0.1)
    whole = derive_correlation(
        ("sweep", causes), ("reset", effects), (Interval(0.0, 90_000.0),), 30.0, random.Random(1)
    )
    assert whole.lift is not None
    assert whole.lift > 40, "as it would be told if silence were taken for absence"


def test_what_lies_outside_is_no_case_and_the_first_case_keeps_its_cause() -> None:
    watched = (Interval(100.0, 200.0), Interval(300.0, 400.0))
    found = derive_correlation(("a", [95.0, 250.0]), ("b", [100.0, 260.0, 305.0]), watched, 30.0, random.Random(1))
    assert (found.cases, found.preceded) == (2, 1)


def test_intervals_are_joined_and_crossed() -> None:
    assert joined([Interval(5, 6), Interval(1, 3), Interval(2, 4)]) == (Interval(1, 4), Interval(5, 6))
    assert common((Interval(1, 4), Interval(5, 6)), (Interval(3, 5.5),)) == (Interval(3, 4), Interval(5, 5.5))
    assert common((Interval(1, 2),), (Interval(3, 4),)) == ()
