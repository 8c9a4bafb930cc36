# SPDX-License-Identifier: Apache-2.0
"""The last minutes of zombies, in all and by maker, of live cgroups and of the kernel's ids: what growth is told from.

Times are of a clock that only goes forward: the wall clock may jump, and only what is told to others is in its terms.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from zombiescope.analysis.growth import (
    Forecast,
    Growth,
    Track,
    ceiling_of,
    derive_forecasts,
    derive_growth,
    derive_ids_forecast,
    shifted,
    with_recent,
)
from zombiescope.analysis.ledger import Accounts, Passing
from zombiescope.analysis.trend import Point, Slope, derive_slope
from zombiescope.facts.cgroups import Look

WINDOW_SECONDS = 600.0
RECENT_SECONDS = 180.0
"""A leak that begins after hours of peace is seen in this one first."""
_MOST_POINTS = 240
_MOST_MAKERS = 40
_MOST_WALKS = 48


class Growing:
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
        largest = sorted(zombies, key=lambda maker: -zombies[maker])[:_MOST_MAKERS]
        for maker in {*largest, *self._makers}:
            points = self._makers.get(maker)
            if points is None:
                # Not seen before: it had none.
                before = ((moment, 0.0, 0.0) for moment, _ in self._total if moment < clock)
                points = self._makers[maker] = deque(before, maxlen=_MOST_POINTS)
            points.append((clock, zombies.get(maker, 0), self._passing.of(maker)))
        for maker in [name for name, points in self._makers.items() if not any(value for _, value, _ in points)]:
            del self._makers[maker]

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
