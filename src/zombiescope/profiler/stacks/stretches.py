# SPDX-License-Identifier: Apache-2.0
"""What was asked for, counted second by second in each capture that may have it, and the stretch of seconds that chance explains
least: not its busiest second, which a short burst of something else can reach, but all of it against what is usual in the ring."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

import numpy as np

from zombiescope.profiler.stacks.arrays import I64, Numbers

_LONGEST_SECONDS = 60
_LEAST_SAMPLES = 0.5
"""That the usual capture is taken to have of it: none was seen where others saw few is no proof that there never is one."""
_MOSTLY = 0.8


class Seen(NamedTuple):
    """Samples of one capture that are what was asked for."""

    second: I64
    """Of each of them, after the first sample of the capture."""
    core: Numbers
    rate_hz: float
    seconds: float

    @property
    def cores(self) -> float:
        """On average."""
        return len(self.second) / (self.rate_hz * max(1.0, self.seconds))


class Stretch(NamedTuple):
    begin: int
    end: int
    score: float
    """Deviations above what is usual."""
    peak: float
    """Cores in its busiest second."""
    core: int | None
    """Where nearly all of it was."""


def usual_cores(looked_at: Sequence[Seen], others: int, without: int) -> float:
    """Of the middle capture. `others` were not looked at, because more of it is in those that were; `without` have none."""
    averages = sorted(seen.cores for seen in looked_at)
    fewer = [averages[0]] * others if averages else []
    return median([*averages, *fewer, *[0.0] * without] or [0.0])


def best_stretch(seen: Seen, usual: float) -> Stretch:
    """The seconds in a row whose count has the largest likelihood ratio against the usual one, as deviations."""
    counts = np.bincount(seen.second)
    length = max(len(counts), round(seen.seconds), 1)
    expected = (usual * seen.rate_hz * length + _LEAST_SAMPLES) / length
    sums = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    best, begin, end = -1.0, 0, 1
    for width in range(1, min(len(counts), _LONGEST_SECONDS) + 1):
        found = sums[width:] - sums[:-width]
        at = int(np.argmax(found))  # of one width the ratio grows with the count
        count, chance = float(found[at]), expected * width
        ratio = count * float(np.log(max(count, 1.0) / chance)) - (count - chance) if count > chance else 0.0
        if ratio > best:
            best, begin, end = ratio, at, at + width
    inside = (seen.second >= begin) & (seen.second < end)
    cores = np.bincount(seen.core[inside])
    core = int(np.argmax(cores)) if len(cores) and int(cores.max()) >= _MOSTLY * int(cores.sum()) else None
    peak = float(counts[begin:end].max()) / seen.rate_hz
    return Stretch(begin, end, float(np.sqrt(2 * max(best, 0.0))), peak, core)
