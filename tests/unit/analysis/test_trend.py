# SPDX-License-Identifier: Apache-2.0
"""Slopes, changes and forecasts: what leaks is found, what only churns is not."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.analysis.trend import (
    Slope,
    derive_change,
    derive_slope,
    reached_after,
    seconds_until,
    settled,
    thinned,
)


def test_a_line_has_its_slope_and_no_noise() -> None:
    slope = derive_slope([(10.0 * n, 3.0 + 0.5 * n) for n in range(30)])
    assert slope is not None
    assert slope.per_second == pytest.approx(0.05)
    assert slope.low == pytest.approx(0.05)


def test_wild_values_and_a_step_do_not_move_it() -> None:
    wild = [(10.0 * n, n + (500.0 if n % 9 == 4 else 0.0)) for n in range(40)]
    slope = derive_slope(wild)
    assert slope is not None
    assert slope.per_second == pytest.approx(0.1, rel=0.1)
    step = derive_slope([(10.0 * n, 0.0 if n < 20 else 30.0) for n in range(40)])
    assert step is not None
    assert step.low == 0


@given(st.integers(0, 1 << 30), st.integers(8, 60))
def test_noise_around_a_level_has_nought_in_its_range(seed: int, count: int) -> None:
    """Not in every single case, by the nature of a range of 99 in 100: the slope must then be small."""
    chance = random.Random(seed)
    points = settled([(10.0 * n, 100.0 + chance.randrange(40)) for n in range(count)])
    slope = derive_slope(points)
    assert slope is not None
    assert slope.low <= 0 or slope.low * 10 * count < 40


def test_too_little_has_no_slope() -> None:
    assert derive_slope([]) is None
    assert derive_slope([(1.0, 1.0)] * 3) is None
    assert derive_slope([(1.0, 1.0)] * 10) is None


def test_the_moment_it_began() -> None:
    flat_then_rising = [(10.0 * n, 5.0 if n < 30 else 5.0 + (n - 30)) for n in range(60)]
    assert derive_change(flat_then_rising) == pytest.approx(300, abs=30)
    assert derive_change([(10.0 * n, float(n)) for n in range(60)]) is None
    assert derive_change([(10.0 * n, 7.0) for n in range(60)]) is None


def test_thinning_keeps_the_last() -> None:
    points = [(float(n), float(n)) for n in range(1000)]
    assert thinned(points, 100)[-1] == (999.0, 999.0)
    assert len(thinned(points, 100)) <= 100
    assert thinned(points[:7], 100) == points[:7]


def test_when_a_mark_is_reached() -> None:
    assert seconds_until(0, 100, Slope(1, 0.5, 2)) == (50, 200)
    assert seconds_until(0, 100, Slope(1, -0.5, 2)) == (50, None)
    assert seconds_until(100, 100, Slope(1, 1, 1)) is None
    assert seconds_until(0, 100, Slope(-1, -1, -1)) is None


def test_how_long_after_a_start_it_was_reached() -> None:
    points = [(1000.0, 0.0), (2000.0, 50.0), (3000.0, 150.0)]
    assert reached_after(points, 900, 100) == 1600
    assert reached_after(points, 900, 1000) is None
    assert reached_after([(1000.0, 500.0)], 900, 100) == 100
