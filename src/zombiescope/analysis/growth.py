# SPDX-License-Identifier: Apache-2.0
"""Whether zombies grow, by how much, since when, whose they are, and when a mark will be reached; and the re-onset clock: how long
after each boot the mark was reached before. Numbers only; `diagnosis/rules/zombie_growth.py` judges them."""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from zombiescope.analysis.ledger import Accounts, Passing
from zombiescope.analysis.trend import (
    Point,
    Slope,
    derive_change,
    derive_slope,
    median,
    reached_after,
    seconds_until,
    settled,
)
from zombiescope.facts.cgroups import Look

MOST_MEMCG_IDS = 65_535
"""Held by live memory cgroups and by zombies with pages in swap: a birth beyond them fails."""


_LEAST_STEP = 0.2
"""Of a rise, that each half of the window has: a leak does not come in one step."""
_REACH = 500
"""So many times as long as was watched, a forecast of the ids may lie ahead."""


class Trend(NamedTuple):
    """One series of zombies over a window."""

    maker: str | None
    """None: all of them together."""
    now: int
    grown: int
    """By how much the floor surely rose, from the first third of the window to the last: deaths on their way come back to the
    floor, however many there are, and a leak does not."""
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
    """Only those that grew, the one that grew most first."""
    forecasts: tuple[Forecast, ...] = ()
    onset: Onset | None = None
    ids: Forecast | None = None
    """When live cgroups, and zombies with pages in swap, will have used up the kernel's ids."""
    are_makers_known: bool = False
    """Then whatever grows is one of them; the total follows every load."""


class Track(NamedTuple):
    """Zombies over time, and what else is known of them."""

    points: Sequence[Point]
    passing: Sequence[float] = ()
    """At each point: how many of those that died lately pass on, as those before them did. A load that rises has more of them."""
    ceiling: float | None = None
    """They come and go: only what is above this is growth."""


def derive_growth(total: Sequence[Point], by_maker: Mapping[str, Track]) -> Growth | None:
    """None without two points. Values are settled first, so that ordinary deaths on their way do not count."""
    if len(total) < 2:
        return None
    trends = [trend for maker, track in by_maker.items() if (trend := derive_trend(maker, track)) and trend.grown > 0]
    return Growth(
        total[-1][0],
        total[-1][0] - total[0][0],
        derive_trend(None, Track(total)),
        tuple(sorted(trends, key=_most_grown_first)),
        are_makers_known=bool(by_maker),
    )


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
    return growth._replace(makers=tuple(sorted(found.values(), key=_most_grown_first)))


def _most_grown_first(trend: Trend) -> tuple[int, float, str]:
    """Who is named as making most of them is who made most, not who does it most evenly."""
    return -trend.grown, -trend.slope.low, trend.maker or ""


def shifted(growth: Growth, seconds: float) -> Growth:
    """The same in terms of another clock."""
    makers = tuple(trend._replace(since=trend.since + seconds) for trend in growth.makers)
    total = growth.total._replace(since=growth.total.since + seconds) if growth.total else None
    return growth._replace(at=growth.at + seconds, total=total, makers=makers)


def derive_trend(maker: str | None, track: Track) -> Trend | None:
    calm = settled(track.points)
    slope = derive_slope(calm)
    if slope is None:
        return None
    change = derive_change(calm)
    begun = change if change is not None else calm[0][0]
    return Trend(maker, round(calm[-1][1]), round(risen(calm, track)), slope, begun, change is not None)


def risen(calm: Sequence[Point], track: Track) -> float:
    """By how much the floor surely rose; not above 0 where the rise is over or never lasted."""
    third = max(len(calm) // 3, 1)
    values = [value for _, value in calm]
    first, middle, last = min(values[:third]), min(values[third:-third] or values), min(values[-third:])
    rise = last - first
    if min(middle - first, last - middle) < _LEAST_STEP * rise or is_falling(values[-third:]):
        return min(rise, 0.0)
    if track.passing:
        rise -= max(middle_of(track.passing[-third:]) - middle_of(track.passing[:third]), 0.0)
    return rise if track.ceiling is None else min(rise, last - track.ceiling)


def is_falling(values: Sequence[float]) -> bool:
    half = len(values) // 2
    return half > 0 and middle_of(values[half:]) < middle_of(values[:half])


def middle_of(values: Sequence[float]) -> float:
    return median(sorted(values))


def ceiling_of(values: Iterable[float], least: float) -> float | None:
    """The height from which the values came down again, where they did so at least twice: what comes and goes is no leak."""
    falls, highest, high = 0, 0.0, float("-inf")
    for value in values:
        high = max(high, value)
        if high - value >= least and value <= high / 2:
            falls, highest, high = falls + 1, max(highest, high), value
    return highest if falls >= _FALLS_OF_A_RHYTHM else None


def derive_forecasts(value: float, slope: Slope, marks: Iterable[tuple[str, float]]) -> tuple[Forecast, ...]:
    """`marks`: what is reached, and at how many zombies."""
    found = [Forecast(what, mark, *span) for what, mark in marks if (span := seconds_until(value, mark, slope))]
    return tuple(sorted(found, key=lambda forecast: forecast.soonest_seconds))


def derive_ids_forecast(held: float, slope: Slope | None, watched_seconds: float) -> Forecast | None:
    """When the kernel's ids are used up. A few minutes, in which somebody was deployed, tell nothing about next week."""
    if slope is None or slope.low <= 0:
        return None
    found = derive_forecasts(held, slope, [("ids", MOST_MEMCG_IDS)])
    return found[0] if found and found[0].soonest_seconds <= _REACH * watched_seconds else None


def derive_onset(boots: Iterable[tuple[float, Sequence[Point]]], mark: int) -> Onset | None:
    """`boots`: when each began, and its zombies over time. None where the mark was never reached."""
    seconds = tuple(span for start, points in boots if (span := reached_after(points, start, mark)) is not None)
    return Onset(mark, seconds) if seconds else None


WINDOW_SECONDS = 600.0
RECENT_SECONDS = 180.0
"""A leak that begins after hours of peace is seen in this one first."""
_MOST_POINTS, _MOST_MAKERS, _MOST_WALKS, _FALLS_OF_A_RHYTHM = 240, 40, 48, 2


class GrowthWatch:
    def __init__(self) -> None:
        self._total: deque[Point] = deque(maxlen=_MOST_POINTS)
        self._live: deque[Point] = deque(maxlen=_MOST_POINTS)
        self._makers: dict[str, deque[tuple[float, float, float]]] = {}
        """Clock, zombies, of them passing on."""
        self._passing = Passing()
        self._has_makers = False
        self._swapped: deque[Point] = deque(maxlen=_MOST_WALKS)

    def take_look(self, clock: float, look: Look, died_lately: int) -> None:
        self._live.append((clock, look.live))
        self._total.append((clock, max(look.zombies - died_lately, 0)))

    def take_makers(self, clock: float, accounts: Accounts) -> None:
        """After each reading of a ledger that sees releases."""
        self._has_makers = True
        self._passing.add(clock, accounts.lately)
        zombies = accounts.settled()
        for maker in {*sorted(zombies, key=lambda maker: -zombies[maker])[:_MOST_MAKERS], *self._makers}:
            points = self._makers.get(maker)
            if points is None:
                # Not seen before: it had none.
                before = ((moment, 0.0, 0.0) for moment, _ in self._total if moment < clock)
                points = self._makers[maker] = deque(before, maxlen=_MOST_POINTS)
            points.append((clock, zombies.get(maker, 0), self._passing.of(maker)))
        for maker in [name for name, points in self._makers.items() if not any(value for _, value, _ in points)]:
            del self._makers[maker]

    def rename(self, names: Mapping[str, str]) -> None:
        """Pods whose workload is known from now on: what they had is the workload's, and no growth of it."""
        self._passing.rename(names)
        for old, new in names.items():
            points = self._makers.pop(old, None)
            if points is None:
                continue
            before = {clock: (value, passing) for clock, value, passing in self._makers.get(new, ())}
            for clock, value, passing in points:
                other = before.get(clock, (0.0, 0.0))
                before[clock] = (other[0] + value, other[1] + passing)
            together = ((clock, *each) for clock, each in sorted(before.items()))
            self._makers[new] = deque(together, maxlen=_MOST_POINTS)

    def take_walk(self, clock: float, swapped: int | None, *, is_first: bool) -> None:
        """`swapped`: zombies that keep their id, having pages in swap."""
        if is_first:
            self._makers.clear()  # what was there before is no growth
        if swapped is not None:
            self._swapped.append((clock, swapped))

    @property
    def ids_held(self) -> int | None:
        """Of the kernel's ids: by live cgroups, and by zombies with pages in swap as the last walk counted them."""
        return round(self._live[-1][1] + self._swapped[-1][1]) if self._live and self._swapped else None

    def growth(self, at: float, least: float, marks: list[tuple[str, float]]) -> Growth | None:
        """`at`: the wall clock now. The cost is that of a few thousand pairs of points."""
        growth = self._over(WINDOW_SECONDS, least)
        if growth is None:
            return None
        growth = with_recent(growth, self._over(RECENT_SECONDS, least))._replace(are_makers_known=self._has_makers)
        if growth.total is not None:
            growth = growth._replace(forecasts=derive_forecasts(growth.total.now, growth.total.slope, marks))
        return shifted(growth._replace(ids=self._ids_run_out()), at - growth.at)

    def _over(self, seconds: float, least: float) -> Growth | None:
        begin = (self._total[-1][0] if self._total else 0.0) - seconds
        tracks = {
            maker: _track(points, begin, least)
            for maker, points in self._makers.items()
            if points[-1][1] != points[0][1]
        }
        return derive_growth([point for point in self._total if point[0] >= begin], tracks)

    def _ids_run_out(self) -> Forecast | None:
        """Live memory cgroups hold the kernel's ids; zombies do only while pages of theirs are in swap."""
        slopes = [slope for points in (self._live, self._swapped) if (slope := derive_slope(list(points)))]
        held = self._live[-1][1] + (self._swapped[-1][1] if self._swapped else 0)
        both = Slope(*(sum(parts) for parts in zip(*slopes, strict=True))) if slopes else None
        return derive_ids_forecast(held, both, self._live[-1][0] - self._live[0][0])


def _track(points: Sequence[tuple[float, float, float]], begin: float, least: float) -> Track:
    inside = [point for point in points if point[0] >= begin]
    ceiling = ceiling_of((value for _, value, _ in points), least)
    return Track([(clock, value) for clock, value, _ in inside], [passing for *_, passing in inside], ceiling)
