# SPDX-License-Identifier: Apache-2.0
"""What is usual in a ring, and what stands out of it: the busiest second of each function, cause, process, cgroup and core,
compared with that of the other captures."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping
from statistics import median
from typing import NamedTuple

Peaks = Mapping[str, Mapping[str, float]]
"""Kind, name: cores in its busiest second."""
_MOST = 12
_LEAST_RISE = 0.15
_LEAST_SCORE = 3.0
_LEAST_CAPTURES = 3
_WIDEST = 1.4826
"""A median distance as a standard deviation."""


class Usual(NamedTuple):
    cores: float
    spread: float

    def score(self, peak: float, rate_hz: float) -> float:
        """How many deviations a peak is above what is usual: of counting samples, and of what the others show."""
        counted = (self.cores + 3.0 / max(1.0, rate_hz)) / max(1.0, rate_hz)
        return (peak - self.cores) / math.sqrt(counted + self.spread**2)


_NONE = Usual(0.0, 0.0)


class Changed(NamedTuple):
    kind: str
    name: str
    peak: float
    usual: float
    score: float


class Usuals:
    """Of a number of captures, worked out once."""

    def __init__(self, captures: Collection[Peaks]) -> None:
        self.captures = len(captures)
        self._found: dict[tuple[str, str], Usual] = {}
        values: dict[tuple[str, str], list[float]] = {}
        for each in captures:
            for kind, of_kind in each.items():
                for name, peak in of_kind.items():
                    values.setdefault((kind, name), []).append(peak)
        for key, seen in values.items():
            if 2 * len(seen) >= self.captures:  # of one that most captures lack, none is usual
                every = [*seen, *[0.0] * (self.captures - len(seen))]
                middle = median(every)
                spread = _WIDEST * median(abs(value - middle) for value in every)
                self._found[key] = Usual(middle, spread)

    def of(self, kind: str, name: str) -> Usual:
        return self._found.get((kind, name), _NONE)


def changed(peaks: Peaks, rate_hz: float, usuals: Usuals, kinds: Iterable[str]) -> tuple[Changed, ...]:
    """What takes more than usual, most first. Nothing where there is too little to compare with."""
    if usuals.captures < _LEAST_CAPTURES:
        return ()
    found = []
    for kind in kinds:
        for name, peak in peaks.get(kind, {}).items():
            usual = usuals.of(kind, name)
            score = usual.score(peak, rate_hz)
            if peak - usual.cores >= _LEAST_RISE and score >= _LEAST_SCORE:
                found.append(Changed(kind, name, round(peak, 4), round(usual.cores, 4), round(score, 2)))
    return tuple(sorted(found, key=lambda one: -one.score)[:_MOST])
