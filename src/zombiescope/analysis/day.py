# SPDX-License-Identifier: Apache-2.0
"""The last day in few numbers, for small pictures: the stock, the saturated seconds and the resets in each of 120 stretches."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from zombiescope.facts.history import Happening, Sample

STRETCHES = 120
SECONDS = 86_400.0
_WIDTH = SECONDS / STRETCHES
ZOMBIES, SATURATED, RESET = "zombies", "saturated_seconds", "nic-reset"


class DayLine(NamedTuple):
    """Low and high of each stretch, None where nobody watched."""

    begin: float
    low: tuple[float | None, ...]
    high: tuple[float | None, ...]

    @property
    def end(self) -> float:
        return self.begin + SECONDS

    def scaled(self, factor: float) -> "DayLine":
        return DayLine(self.begin, _times(self.low, factor), _times(self.high, factor))


def _times(values: Iterable[float | None], factor: float) -> tuple[float | None, ...]:
    return tuple(None if value is None else value * factor for value in values)


class FindingChange(NamedTuple):
    at: float
    what: str
    detail: str


class Day:
    """Samples and events go in, in order of time; what is older than a day goes out when it is asked for."""

    def __init__(self) -> None:
        self._zombies: dict[int, list[float]] = {}
        """By stretch: lowest, highest, last."""
        self._saturated: dict[int, float] = {}
        self._before: float | None = None
        self._resets: dict[int, int] = {}
        self.last_change: FindingChange | None = None

    def take(self, at: float, values: Mapping[str, float]) -> None:
        stretch = int(at // _WIDTH)
        zombies = values.get(ZOMBIES)
        if zombies is not None:
            low, high, _ = self._zombies.get(stretch, (zombies,) * 3)
            self._zombies[stretch] = [min(low, zombies), max(high, zombies), zombies]
        saturated = values.get(SATURATED)
        if saturated is not None:
            grown = 0.0 if self._before is None or saturated < self._before else saturated - self._before
            self._saturated[stretch] = self._saturated.get(stretch, 0.0) + grown
            self._before = saturated
        if len(self._zombies) > 2 * STRETCHES:
            for kept in (self._zombies, self._saturated, self._resets):
                for old in [each for each in kept if each < stretch - STRETCHES]:
                    del kept[old]

    def happened(self, at: float, what: str, detail: str) -> None:
        if what == RESET:
            stretch = int(at // _WIDTH)
            self._resets[stretch] = self._resets.get(stretch, 0) + 1
        elif what in ("finding-present", "finding-gone") and (self.last_change is None or at >= self.last_change.at):
            self.last_change = FindingChange(at, what, detail)

    def zombies(self, now: float) -> DayLine:
        return self._line(now, self._zombies.get)

    def growth(self, now: float) -> DayLine:
        """Zombies more per hour, from stretch to stretch."""

        def grown(stretch: int) -> tuple[float, float] | None:
            here, before = self._zombies.get(stretch), self._zombies.get(stretch - 1)
            return None if here is None or before is None else _twice((here[2] - before[2]) * 3600 / _WIDTH)

        return self._line(now, grown)

    def saturated(self, now: float) -> DayLine:
        return self._line(now, lambda stretch: _twice(self._saturated.get(stretch)))

    def resets(self, now: float) -> DayLine:
        """Where the agent looked and saw none there was none."""
        return self._line(
            now, lambda stretch: _twice(self._resets.get(stretch, 0 if stretch in self._zombies else None))
        )

    def above_since(self, mark: float, now: float) -> float | None:
        """When the stock last rose to the mark; None where it was above it for all of the day that is known, or is not now."""
        first = int(now // _WIDTH) - STRETCHES + 1
        since = None
        for stretch in sorted((each for each in self._zombies if each >= first), reverse=True):
            if self._zombies[stretch][2] < mark:
                return since
            since = stretch * _WIDTH
        return None

    def _line(self, now: float, of: Any) -> DayLine:
        last = int(now // _WIDTH)
        stretches = range(last - STRETCHES + 1, last + 1)
        found = [of(stretch) for stretch in stretches]
        low = tuple(None if each is None else each[0] for each in found)
        return DayLine(stretches[0] * _WIDTH, low, tuple(None if each is None else each[1] for each in found))

    def to_plain(self) -> dict[str, Any]:
        return {
            "zombies": [[stretch, *values] for stretch, values in self._zombies.items()],
            "saturated": [list(each) for each in self._saturated.items()],
            "resets": [list(each) for each in self._resets.items()],
            "last_change": list(self.last_change) if self.last_change else None,
        }

    def join(self, plain: Mapping[str, Any]) -> None:
        """What an earlier one was told: of a stretch that both know, the one that is here already counts."""
        for stretch, *values in plain["zombies"]:
            self._zombies.setdefault(stretch, values)
        for stretch, seconds in plain["saturated"]:
            self._saturated.setdefault(stretch, seconds)
        for stretch, number in plain["resets"]:
            self._resets.setdefault(stretch, number)
        if plain["last_change"] and self.last_change is None:
            self.last_change = FindingChange(*plain["last_change"])


def day_of(samples: Iterable[Sample], happenings: Iterable[Happening]) -> Day:
    day = Day()
    for sample in samples:
        day.take(sample.at, sample.values)
    for each in happenings:
        day.happened(each.at, each.what, each.detail)
    return day


def _twice(value: float | None) -> tuple[float, float] | None:
    return None if value is None else (value, value)
