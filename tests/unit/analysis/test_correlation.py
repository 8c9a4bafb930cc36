# SPDX-License-Identifier: Apache-2.0
"""Correlation: none among independent events, a small p for a real one, and silence about too few cases."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zombiescope.analysis.correlation import LEAST_CASES, Correlation, Span, derive_correlation

DAY = Span(0.0, 86_400.0)


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
    found = derive_correlation(("a", [1.0]), ("b", [1.0]), Span(1.0, 1.0), 5.0, random.Random(1))
    assert (found.chance, found.lift, found.p_value) == (None, None, None)
