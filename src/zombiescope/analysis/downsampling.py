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
                self._take_counter(name, boot, times, column)
            else:
                self._take_runs(name, runs, column)

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
        for name, lows in low.items():
            highs = high[name]
            if name in self._counters:
                ends = [begin + width * (slot + 1) for slot in range(len(highs))]
                column = [None if value != value else value for value in highs]  # noqa: PLR0124 (not a number)
                self._take_counter(name, boot, ends, column, width)
                continue
            for slot, value in enumerate(lows):
                if value == value:  # noqa: PLR0124
                    self._put(name, begin + width * slot, width, value, highs[slot])

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

    def _take_runs(self, name: str, runs: list[tuple[int, int, int]], column: Sequence[float | None]) -> None:
        lows, highs, lasts = self._lists(name)
        is_whole = None not in column
        for bucket, start, end in runs:
            values = column[start:end]
            if not is_whole:
                values = [value for value in values if value is not None]
                if not values:
                    continue
            low, high = min(values), max(values)  # type: ignore[type-var]
            before = lows[bucket]
            lows[bucket] = low if before is None or low < before else before  # type: ignore[operator]
            before = highs[bucket]
            highs[bucket] = high if before is None or high > before else before  # type: ignore[operator]
            lasts[bucket] = values[-1]

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
        self, name: str, boot: str, times: Sequence[float], column: Sequence[float | None], least: float = 0.0
    ) -> None:
        """What it grew by goes to the time since the value before, where that is not too long ago."""
        grown = self._last.setdefault(name, [None] * self.points)
        covered = self._seconds.setdefault(name, [0.0] * self.points)
        known = self._before.get(name)
        for at, value in zip(times, column, strict=True):
            if value is None:
                continue
            if known is not None and known[0] == boot:
                since = at - known[1]
                more = value - known[2]
                if 0 < since <= max(_LONGEST_BETWEEN, 2 * least):
                    self._spread(grown, covered, known[1], at, more if more >= 0 else max(value, 0.0))
            known = (boot, at, value)
        if known is not None:
            self._before[name] = known

    def _spread(self, grown: list[float | None], covered: list[float], since: float, until: float, more: float) -> None:
        first = int((since - self.begin) // self.step)
        final = int((until - self.begin - 1e-9) // self.step)
        for bucket in range(max(first, 0), min(final, self.points - 1) + 1):
            left = self.begin + bucket * self.step
            overlap = min(until, left + self.step) - max(since, left)
            if overlap <= 0:
                continue
            grown[bucket] = (grown[bucket] or 0.0) + more * overlap / (until - since)
            covered[bucket] += overlap

    def _thin_counter(self, name: str) -> Thin | None:
        grown = self._last.get(name)
        if grown is None:
            return None
        rates = [
            None if more is None or seconds <= 0 else more / seconds
            for more, seconds in zip(grown, self._seconds[name], strict=True)
        ]
        return Thin(rates, rates, rates)


_LONGEST_BETWEEN = 120.0
"""Between two samples: longer ago, nobody watched."""
