# SPDX-License-Identifier: Apache-2.0
"""What was asked for, counted second by second in each capture that may have it, and the stretch of seconds that is explained
least: by chance, and by what the same processes do in other captures. A job that comes back is usual, however much it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import NamedTuple

import numpy as np

from zombiescope.profiler.stacks.arrays import I64, Numbers

_WIDTHS = (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 25, 30, 40, 50, 60)
"""Seconds."""
_LEAST_SAMPLES = 0.5
"""That the usual capture is taken to have of it: none was seen where others saw few is no proof that there never is one."""
_MOSTLY = 0.8
_UPPER = 0.75
_MOST_PROCESSES = 24
"""Told apart, those with most samples."""

Busiest = Mapping[str, Numbers]
"""By process: cores in its busiest stretch of each width."""


class Seen(NamedTuple):
    """Samples of one capture that are what was asked for."""

    second: I64
    """Of each of them, after the first sample of the capture."""
    core: Numbers
    rate_hz: float
    seconds: float
    process: I64
    """Of each of them, a place in `processes`."""
    processes: tuple[str, ...]

    @property
    def cores(self) -> float:
        """On average."""
        return len(self.second) / (self.rate_hz * max(1.0, self.seconds))

    def by_process(self) -> dict[str, I64]:
        """Samples in each second."""
        length = int(self.second.max(initial=-1)) + 1
        most = np.argsort(-np.bincount(self.process), kind="stable")[:_MOST_PROCESSES]
        return {
            self.processes[number]: np.bincount(self.second[self.process == number], minlength=length)
            for number in most.tolist()
        }


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


def busiest(seen: Seen) -> Busiest:
    found = {}
    for process, counts in seen.by_process().items():
        sums = _sums(counts)
        most = [int((sums[width:] - sums[:-width]).max(initial=0)) / width for width in _widths(len(counts))]
        most += most[-1:] * (len(_WIDTHS) - len(most))
        found[process] = np.array(most) / seen.rate_hz
    return found


def usual_stretches(others: Sequence[Busiest]) -> Busiest:
    """What each process takes in the upper quarter of the captures in which it does this at all."""
    found: dict[str, list[Numbers]] = {}
    for each in others:
        for process, cores in each.items():
            found.setdefault(process, []).append(cores)
    return {process: np.quantile(np.stack(cores), _UPPER, axis=0) for process, cores in found.items()}


def best_stretch(seen: Seen, usual: float, elsewhere: Busiest) -> Stretch:
    """The seconds in a row whose count has the largest likelihood ratio against the usual one, as deviations. `elsewhere`: what is
    usual of each process where it does this."""
    counts = np.bincount(seen.second)
    length = max(len(counts), round(seen.seconds), 1)
    expected = (usual * seen.rate_hz * length + _LEAST_SAMPLES) / length
    sums = _sums(counts)
    known = [
        (_sums(mine), elsewhere[process] * seen.rate_hz)
        for process, mine in seen.by_process().items()
        if process in elsewhere
    ]
    best, begin, end = -1.0, 0, 1
    for place, width in enumerate(_widths(len(counts))):
        found = sums[width:] - sums[:-width]
        explained = np.full(len(found), expected * width)
        for mine, most in known:
            explained += np.minimum(mine[width:] - mine[:-width], most[place] * width)
        ratios = found * np.log(np.maximum(found, 1) / explained) - (found - explained)
        ratios[found <= explained] = 0
        at = int(np.argmax(ratios if ratios.any() else found))  # where nothing stands out, where most of it was
        if ratios[at] > best:
            best, begin, end = float(ratios[at]), at, at + width
    inside = (seen.second >= begin) & (seen.second < end)
    cores = np.bincount(seen.core[inside])
    core = int(np.argmax(cores)) if len(cores) and int(cores.max()) >= _MOSTLY * int(cores.sum()) else None
    peak = float(counts[begin:end].max()) / seen.rate_hz
    return Stretch(begin, end, float(np.sqrt(2 * max(best, 0.0))), peak, core)


def _sums(counts: I64) -> I64:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])


def _widths(seconds: int) -> list[int]:
    return [width for width in _WIDTHS if width <= seconds]
