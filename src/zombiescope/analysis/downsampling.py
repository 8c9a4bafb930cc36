# SPDX-License-Identifier: Apache-2.0
"""Long series in as many stretches as a picture has room for: of each the lowest and the highest value: no peak is lost.
Counters become what they grew by per second. A stretch of which nothing is known is None, never zero."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import NamedTuple


class Thin(NamedTuple):
    low: list[float | None]
    high: list[float | None]


class Buckets:
    """`counters`: names whose values only grow; at a reset (an agent that began anew) they begin again."""

    def __init__(self, begin: float, end: float, points: int, counters: frozenset[str] = frozenset()) -> None:
        self.begin, self.points = begin, points
        self.step = (end - begin) / points
        self._counters = counters
        self._low: dict[str, list[float | None]] = {}
        self._high: dict[str, list[float | None]] = {}
        self._grown: dict[str, list[float | None]] = {}
        self._before: dict[str, tuple[str, float, float]] = {}
        """Of each counter: boot, when, and how far it had come."""
        self._seconds: dict[str, list[float]] = {}

    def take(self, boot: str, times: Sequence[float], columns: Mapping[str, Sequence[float | None]]) -> None:
        """Samples in order of time."""
        runs = self._runs(times)
        for name, column in columns.items():
            if name in self._counters:
                self._take_counter(name, boot, times, column, runs)
            else:
                self._take_runs(name, runs, column, column)

    def take_slots(
        self,
        boot: str,
        begin: float,
        width: float,
        low: Mapping[str, Sequence[float]],
        high: Mapping[str, Sequence[float]],
    ) -> None:
        """Slots of one width, each with its lowest and highest value; NaN where nothing is known. Each lies in one stretch."""
        number = max(map(len, low.values()), default=0)
        begins = [begin + width * slot for slot in range(number)]
        runs = self._runs(begins)
        ends = [at + width for at in begins]
        only = runs[0][0] if len(runs) == 1 and runs[0][2] - runs[0][1] == number else None
        for name, lows in low.items():
            if name in self._counters:
                if only is None or not self._rose(name, boot, only, (ends, high[name]), width):
                    self._take_counter(name, boot, ends, _without_nan(high[name]), runs, width)
            elif only is not None and lows[0] == lows[0]:
                self._take_one(name, only, min(lows), max(high[name]))
            else:
                self._take_runs(name, runs, _without_nan(lows), _without_nan(high[name]))

    def thin(self, name: str) -> Thin | None:
        if name in self._counters:
            return self._thin_counter(name)
        return Thin(self._low[name], self._high[name]) if name in self._low else None

    def _runs(self, times: Sequence[float]) -> list[tuple[int, int, int]]:
        """Samples that fall into one stretch, as a range, and which stretch."""
        found: list[tuple[int, int, int]] = []
        end = 0
        for bucket, each in groupby(times, key=lambda at: int((at - self.begin) // self.step)):
            start, end = end, end + len(list(each))
            if 0 <= bucket < self.points:
                found.append((bucket, start, end))
        return found

    def _take_runs(
        self, name: str, runs: list[tuple[int, int, int]], lows: Sequence[float | None], highs: Sequence[float | None]
    ) -> None:
        is_whole = None not in lows
        for bucket, start, end in runs:
            low, high = lows[start:end], highs[start:end]
            if not is_whole:
                low = [value for value in low if value is not None]
                high = [value for value in high if value is not None]
                if not low:
                    continue
            self._take_one(name, bucket, min(low), max(high))  # type: ignore[arg-type, type-var]

    def _take_one(self, name: str, bucket: int, lowest: float, highest: float) -> None:
        least, most = self._lists(name)
        before = least[bucket]
        least[bucket] = lowest if before is None or lowest < before else before
        before = most[bucket]
        most[bucket] = highest if before is None or highest > before else before

    def _lists(self, name: str) -> tuple[list[float | None], list[float | None]]:
        if name not in self._low:
            for kept in (self._low, self._high):
                kept[name] = [None] * self.points
        return self._low[name], self._high[name]

    def _take_counter(
        self,
        name: str,
        boot: str,
        times: Sequence[float],
        column: Sequence[float | None],
        runs: list[tuple[int, int, int]],
        least: float = 0.0,
    ) -> None:
        """What it grew by since the value before, where that is not too long ago. Most runs only rise: of those the last value
        is enough."""
        grown = self._grown.setdefault(name, [None] * self.points)
        covered = self._seconds.setdefault(name, [0.0] * self.points)
        longest = max(_LONGEST_BETWEEN, 2 * least)
        known = self._before.get(name)
        is_whole = None not in column
        if runs and runs[0][1] > 0:
            known = _last_known(boot, times, column, runs[0][1]) or known
        for bucket, start, end in runs:
            values = column[start:end]
            if is_whole and known is not None and known[0] == boot and times[start] - known[1] <= longest:
                first, final = values[0], values[-1]
                if known[2] <= first <= final == max(values):  # type: ignore[operator, type-var]
                    grown[bucket] = (grown[bucket] or 0.0) + final - known[2]  # type: ignore[operator]
                    covered[bucket] += times[end - 1] - known[1]
                    known = (boot, times[end - 1], final)  # type: ignore[assignment]
                    continue
            for at, value in zip(times[start:end], values, strict=True):
                if value is None:
                    continue
                if known is not None and known[0] == boot and 0 < at - known[1] <= longest:
                    more = value - known[2]
                    grown[bucket] = (grown[bucket] or 0.0) + (more if more >= 0 else max(value, 0.0))
                    covered[bucket] += at - known[1]
                known = (boot, at, value)
        if known is not None:
            self._before[name] = known

    def _rose(
        self, name: str, boot: str, bucket: int, slots: tuple[Sequence[float], Sequence[float]], least: float
    ) -> bool:
        """As `_take_counter` for an hour in one stretch that is whole and only rises, as nearly all are: of it the last value is
        enough. False: it is not such an hour."""
        known, (times, values) = self._before.get(name), slots
        if known is None or known[0] != boot or times[0] - known[1] > max(_LONGEST_BETWEEN, 2 * least):
            return False
        final, total = values[-1], sum(values)
        if total != total or not known[2] <= values[0] <= final == max(values):  # noqa: PLR0124 (one is not a number)
            return False
        grown, covered = self._grown[name], self._seconds[name]
        grown[bucket] = (grown[bucket] or 0.0) + final - known[2]
        covered[bucket] += times[-1] - known[1]
        self._before[name] = (boot, times[-1], final)
        return True

    def _thin_counter(self, name: str) -> Thin | None:
        grown = self._grown.get(name)
        if grown is None:
            return None
        rates = [
            None if more is None or seconds <= 0 else more / seconds
            for more, seconds in zip(grown, self._seconds[name], strict=True)
        ]
        return Thin(rates, rates)


def _without_nan(values: Sequence[float]) -> Sequence[float | None]:
    total = sum(values)
    if total == total:  # noqa: PLR0124 (every one of them is a number)
        return values
    return [value if value == value else None for value in values]  # noqa: PLR0124


def _last_known(
    boot: str, times: Sequence[float], column: Sequence[float | None], end: int
) -> tuple[str, float, float] | None:
    known = (
        (boot, at, value) for at, value in zip(times[:end][::-1], column[:end][::-1], strict=True) if value is not None
    )
    return next(known, None)


_LONGEST_BETWEEN = 120.0
"""Between two samples: longer ago, nobody watched."""
