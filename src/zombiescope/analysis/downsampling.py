# SPDX-License-Identifier: Apache-2.0
"""Long series in as many stretches as a picture has room for: of each the lowest, the highest and the last value: no peak is
lost. Counters become what they grew by per second. A stretch of which nothing is known is None, never zero."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple


class Thin(NamedTuple):
    low: list[float | None]
    high: list[float | None]
    last: list[float | None]


class Buckets:
    """`counters`: names whose values only grow; at a reset (an agent that began anew) they begin again."""

    def __init__(self, begin: float, end: float, points: int, counters: frozenset[str] = frozenset()) -> None:
        self.begin, self.points = begin, points
        self.step = (end - begin) / points
        self._counters = counters
        self._low: dict[str, list[float | None]] = {}
        self._high: dict[str, list[float | None]] = {}
        self._last: dict[str, list[float | None]] = {}
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
        """Slots of one width, each with its lowest and highest value; NaN where nothing is known. A slot wider than a stretch
        fills all stretches that it covers."""
        number = max(map(len, low.values()), default=0)
        begins = [begin + width * slot for slot in range(number)]
        ends = [at + width for at in begins]
        runs, closing = self._runs(begins), self._runs([end - 1e-6 for end in ends])
        for name, lows in low.items():
            highs = high[name]
            if name in self._counters:
                self._take_counter(name, boot, ends, _without_nan(highs), closing, width)
            elif width <= self.step:
                self._take_runs(name, runs, _without_nan(lows), _without_nan(highs))
            else:
                for at, least, most in zip(begins, lows, highs, strict=True):
                    if least == least:  # noqa: PLR0124 (a number)
                        self._put(name, at, width, least, most)

    def thin(self, name: str) -> Thin | None:
        if name in self._counters:
            return self._thin_counter(name)
        if name not in self._low:
            return None
        return Thin(self._low[name], self._high[name], self._last[name])

    @property
    def names(self) -> list[str]:
        return [*self._low, *self._seconds]

    def _runs(self, times: Sequence[float]) -> list[tuple[int, int, int]]:
        """Samples that fall into one stretch, as a range, and which stretch."""
        found: list[tuple[int, int, int]] = []
        begin, step, points = self.begin, self.step, self.points
        start, current = 0, -1
        for index, at in enumerate(times):
            bucket = int((at - begin) // step)
            if bucket != current:
                if 0 <= current < points:
                    found.append((current, start, index))
                start, current = index, bucket
        if 0 <= current < points:
            found.append((current, start, len(times)))
        return found

    def _take_runs(
        self, name: str, runs: list[tuple[int, int, int]], lows: Sequence[float | None], highs: Sequence[float | None]
    ) -> None:
        least, most, last = self._lists(name)
        is_whole = None not in lows
        for bucket, start, end in runs:
            low, high = lows[start:end], highs[start:end]
            if not is_whole:
                low = [value for value in low if value is not None]
                high = [value for value in high if value is not None]
                if not low:
                    continue
            lowest, highest = min(low), max(high)  # type: ignore[type-var]
            before = least[bucket]
            least[bucket] = lowest if before is None or lowest < before else before  # type: ignore[operator]
            before = most[bucket]
            most[bucket] = highest if before is None or highest > before else before  # type: ignore[operator]
            last[bucket] = high[-1]

    def _put(self, name: str, at: float, width: float, low: float, high: float) -> None:
        lows, highs, lasts = self._lists(name)
        first = max(int((at - self.begin) // self.step), 0)
        final = min(int((at + width - self.begin - 1e-6) // self.step), self.points - 1)
        for bucket in range(first, final + 1):
            before = lows[bucket]
            lows[bucket] = low if before is None or low < before else before
            before = highs[bucket]
            highs[bucket] = high if before is None or high > before else before
            lasts[bucket] = high

    def _lists(self, name: str) -> tuple[list[float | None], list[float | None], list[float | None]]:
        if name not in self._low:
            for kept in (self._low, self._high, self._last):
                kept[name] = [None] * self.points
        return self._low[name], self._high[name], self._last[name]

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
        grown = self._last.setdefault(name, [None] * self.points)
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

    def _thin_counter(self, name: str) -> Thin | None:
        grown = self._last.get(name)
        if grown is None:
            return None
        rates = [
            None if more is None or seconds <= 0 else more / seconds
            for more, seconds in zip(grown, self._seconds[name], strict=True)
        ]
        return Thin(rates, rates, rates)


def _without_nan(values: Sequence[float]) -> Sequence[float | None]:
    total = sum(values)
    if total == total:  # noqa: PLR0124 (every one of them is a number)
        return values
    return [value if value == value else None for value in values]  # noqa: PLR0124


def _last_known(
    boot: str, times: Sequence[float], column: Sequence[float | None], end: int
) -> tuple[str, float, float] | None:
    for index in range(end - 1, -1, -1):
        value = column[index]
        if value is not None:
            return boot, times[index], value
    return None


_LONGEST_BETWEEN = 120.0
"""Between two samples: longer ago, nobody watched."""
