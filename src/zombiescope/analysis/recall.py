# SPDX-License-Identifier: Apache-2.0
"""What a history adds up to: each series in short, when nobody watched, growth in the present boot, and the re-onset clock."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from zombiescope.analysis.growth import Growth, Track, derive_forecasts, derive_growth, derive_onset
from zombiescope.analysis.trend import Point, median
from zombiescope.facts.history import MAKER_PREFIX, Sample

_DOWN_FACTOR = 5
_LEAST_DOWN_SECONDS = 60.0
ALL = "zombies"


class Series(NamedTuple):
    name: str
    points: list[Point]

    @property
    def last(self) -> float:
        return self.points[-1][1]


class Pause(NamedTuple):
    """Nobody watched: the agent was down, or the host."""

    since: float
    until: float
    is_reboot: bool


class Recall(NamedTuple):
    samples: int
    since: float
    until: float
    series: tuple[Series, ...]
    pauses: tuple[Pause, ...]
    growth: Growth | None
    boots: int


def derive_recall(samples: Sequence[Sample], marks: Iterable[tuple[str, float]], onset_mark: int) -> Recall | None:
    """None without samples. Time is that of the samples; where the clock went back they stay in the order they were written."""
    if not samples:
        return None
    boots = by_boot(samples)
    present = boots[-1]
    total = points_of(present, ALL)
    makers = {name for sample in present for name in sample.values if name.startswith(MAKER_PREFIX)}
    tracks = {name.removeprefix(MAKER_PREFIX): Track(points_of(present, name, 0.0)) for name in makers}
    growth = derive_growth(total, tracks)
    if growth is not None and growth.total is not None:
        starts = [(boot[0].at, points_of(boot, ALL)) for boot in boots]
        forecasts = derive_forecasts(growth.total.now, growth.total.slope, marks)
        growth = growth._replace(forecasts=forecasts, onset=derive_onset(starts, onset_mark))
    names = dict.fromkeys(name for sample in samples for name in sample.values)
    series = tuple(Series(name, points_of(samples, name)) for name in names)
    times = [sample.at for sample in samples]
    return Recall(len(samples), min(times), max(times), series, pauses(samples), growth, len(boots))


def by_boot(samples: Sequence[Sample]) -> list[list[Sample]]:
    found: list[list[Sample]] = []
    for sample in samples:
        if not found or found[-1][-1].boot != sample.boot:
            found.append([])
        found[-1].append(sample)
    return found


def points_of(samples: Iterable[Sample], name: str, otherwise: float | None = None) -> list[Point]:
    """With `otherwise` a sample that does not have the series has that value: a maker that is not listed has no zombies."""
    return [
        (sample.at, value)
        for sample in samples
        if (value := sample.values.get(name, otherwise)) is not None and (otherwise is None or ALL in sample.values)
    ]


def pauses(samples: Sequence[Sample]) -> tuple[Pause, ...]:
    steps = sorted(later.at - earlier.at for earlier, later in pairwise(samples) if later.at > earlier.at)
    usual = median(steps) if steps else 0.0
    most = max(_DOWN_FACTOR * usual, _LEAST_DOWN_SECONDS)
    return tuple(
        Pause(earlier.at, later.at, earlier.boot != later.boot)
        for earlier, later in pairwise(samples)
        if later.at - earlier.at > most or earlier.boot != later.boot
    )


def moment_at(samples: Sequence[Sample], at: float) -> Sample | None:
    """The last sample at or before."""
    before = [sample for sample in samples if sample.at <= at]
    return max(before, key=lambda sample: (sample.at, sample.number)) if before else None
