# SPDX-License-Identifier: Apache-2.0
"""Whether zombies grow, by how much, since when, whose they are, and when a mark will be reached; and the re-onset clock: how long
after each boot the mark was reached before. Numbers only; `diagnosis/rules/zombie_growth.py` judges them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from zombiescope.analysis.trend import (
    Point,
    Slope,
    derive_change,
    derive_slope,
    reached_after,
    seconds_until,
    settled,
)

MOST_MEMCG_IDS = 65_535
"""Held by live memory cgroups and by zombies with pages in swap: a birth beyond them fails."""


class Trend(NamedTuple):
    """One series of zombies over a window."""

    maker: str | None
    """None: all of them together."""
    now: int
    grown: int
    """By how much the floor rose, from the first third of the window to the last: deaths on their way come back to the floor,
    however many there are, and a leak does not."""
    slope: Slope
    since: float
    """When it began to grow as it does, or when the window begins."""
    is_since_seen: bool
    """The beginning lies inside the window."""


class Forecast(NamedTuple):
    what: str
    mark: float
    soonest_seconds: float
    latest_seconds: float | None


class Onset(NamedTuple):
    """After each boot that is remembered: seconds until the mark was reached."""

    mark: int
    seconds: tuple[float, ...]


class Growth(NamedTuple):
    at: float
    window_seconds: float
    total: Trend | None
    makers: tuple[Trend, ...]
    """Only those that grew, the fastest first."""
    forecasts: tuple[Forecast, ...] = ()
    onset: Onset | None = None
    ids: Forecast | None = None
    """When live cgroups will have used up the kernel's ids."""


def derive_growth(total: Sequence[Point], by_maker: Mapping[str, Sequence[Point]]) -> Growth | None:
    """None without two points. Values are settled first, so that ordinary deaths on their way do not count."""
    if len(total) < 2:
        return None
    window = total[-1][0] - total[0][0]
    trends = [trend for maker, points in by_maker.items() if (trend := derive_trend(maker, points)) and trend.grown > 0]
    trends.sort(key=lambda trend: (-trend.slope.low, -trend.grown, trend.maker or ""))
    return Growth(total[-1][0], window, derive_trend(None, total), tuple(trends))


def with_recent(growth: Growth, recent: Growth | None) -> Growth:
    """The makers of a long window, and what a short one sees sooner: of each maker the trend that rises more surely. When it
    began is told by the long one."""
    if recent is None:
        return growth
    found = {trend.maker: trend for trend in growth.makers}
    for trend in recent.makers:
        before = found.get(trend.maker)
        if before is None:
            found[trend.maker] = trend
        elif trend.slope.low > before.slope.low and trend.grown >= before.grown:
            found[trend.maker] = trend._replace(since=before.since, is_since_seen=before.is_since_seen)
    ranked = sorted(found.values(), key=lambda trend: (-trend.slope.low, -trend.grown, trend.maker or ""))
    return growth._replace(makers=tuple(ranked))


def derive_trend(maker: str | None, points: Sequence[Point]) -> Trend | None:
    calm = settled(points)
    slope = derive_slope(calm)
    if slope is None:
        return None
    change = derive_change(calm)
    begun = change if change is not None else calm[0][0]
    third = max(len(calm) // 3, 1)
    floors = (min(value for _, value in part) for part in (calm[:third], calm[-third:]))
    return Trend(maker, round(calm[-1][1]), round(-next(floors) + next(floors)), slope, begun, change is not None)


def derive_forecasts(value: float, slope: Slope, marks: Iterable[tuple[str, float]]) -> tuple[Forecast, ...]:
    """`marks`: what is reached, and at how many zombies."""
    found = []
    for what, mark in marks:
        span = seconds_until(value, mark, slope)
        if span is not None:
            found.append(Forecast(what, mark, *span))
    return tuple(sorted(found, key=lambda forecast: forecast.soonest_seconds))


def derive_onset(boots: Iterable[tuple[float, Sequence[Point]]], mark: int) -> Onset | None:
    """`boots`: when each began, and its zombies over time. None where the mark was never reached."""
    reached = [reached_after(points, start, mark) for start, points in boots]
    seconds = tuple(span for span in reached if span is not None)
    return Onset(mark, seconds) if seconds else None
