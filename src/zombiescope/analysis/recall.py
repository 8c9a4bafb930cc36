# SPDX-License-Identifier: Apache-2.0
"""What a history adds up to: each series in short, when nobody watched, growth in the present boot, and the re-onset clock."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from zombiescope.analysis.growth import (
    Forecast,
    Growth,
    Onset,
    Track,
    derive_forecasts,
    derive_growth,
    derive_ids_forecast,
    derive_onset,
)
from zombiescope.analysis.trend import Point, derive_change, derive_slope, median, settled
from zombiescope.facts.history import MAKER_PREFIX, Sample

ALL, UPTIME = "zombies", "uptime"
_NOTHING: Mapping[str, float] = {}
_DOWN_FACTOR, _LEAST_DOWN_SECONDS, _LEAST_AFTER_A_CHANGE = 5, 60.0, 12


class SeriesFigures(NamedTuple):
    """A series in short."""

    samples: int
    first: float
    last: float
    least: float
    most: float


class RecalledSeries(NamedTuple):
    name: str
    points: list[Point]
    exact: SeriesFigures | None = None
    """Of all samples, where `points` are some of them."""

    @property
    def figures(self) -> SeriesFigures:
        values = [value for _, value in self.points]
        return self.exact or SeriesFigures(len(values), values[0], values[-1], min(values), max(values))

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
    series: tuple[RecalledSeries, ...]
    pauses: tuple[Pause, ...]
    growth: Growth | None
    boots: int
    risen: tuple[tuple[str, int], ...] = ()
    """By maker, how many more it has than when growth began to be watched, most first: also those that came in one step."""


class Thinned:
    """Samples one after another. Whole, only so many of them are kept, evenly over the time; of all of them the figures of each
    series, and when they were taken."""

    def __init__(self, most: int) -> None:
        self._most, self._step = most, 1
        self.kept: list[Sample] = []
        self.moments: list[Sample] = []
        """All, without their values."""
        self._running: dict[str, list[float]] = {}
        """As in `SeriesFigures`, but for their number: hundreds of thousands of values come by."""
        self._counts: dict[str, int] = {}

    @property
    def figures(self) -> dict[str, SeriesFigures]:
        return {name: SeriesFigures(self._counts[name], *running) for name, running in self._running.items()}

    def take(self, sample: Sample) -> None:
        if len(self.moments) % self._step == 0:
            self.kept.append(sample)
        if len(self.kept) >= 2 * self._most:
            self.kept, self._step = self.kept[::2], 2 * self._step
        self.moments.append(sample._replace(values=_NOTHING))
        for name, value in sample.values.items():
            running = self._running.get(name)
            if running is None:
                running = self._running[name] = [value] * 4
                self._counts[name] = 0
            self._counts[name] += 1
            running[1] = value
            if value < running[2]:
                running[2] = value
            elif value > running[3]:
                running[3] = value


def derive_recall(
    samples: Sequence[Sample], marks: Iterable[tuple[str, float]], onset: Onset | None = None
) -> Recall | None:
    """None without samples. Time is that of the samples; where the clock went back they stay in the order they were written."""
    names = dict.fromkeys(name for sample in samples for name in sample.values)
    series = tuple(RecalledSeries(name, points_of(samples, name)) for name in names)
    return _recall(samples, samples, series, marks, onset)


def derive_thin_recall(
    thinned: Thinned, marks: Iterable[tuple[str, float]], onset: Onset | None = None
) -> Recall | None:
    """The same in little memory: only growth is told from some of the samples."""
    series = tuple(
        RecalledSeries(name, points_of(thinned.kept, name), known) for name, known in thinned.figures.items()
    )
    return _recall(thinned.moments, thinned.kept, series, marks, onset)


def _recall(
    moments: Sequence[Sample],
    kept: Sequence[Sample],
    series: tuple[RecalledSeries, ...],
    marks: Iterable[tuple[str, float]],
    onset: Onset | None,
) -> Recall | None:
    if not moments:
        return None
    present = by_boot(kept)[-1]
    growth = _growth(present, marks)
    risen: tuple[tuple[str, int], ...] = ()
    if growth is not None:
        growth, risen = growth._replace(onset=onset), _risen(present, growth.at - growth.window_seconds)
    times = [sample.at for sample in moments]
    return Recall(len(moments), min(times), max(times), series, pauses(moments), growth, len(by_boot(moments)), risen)


def _risen(present: Sequence[Sample], begin: float) -> tuple[tuple[str, int], ...]:
    found = []
    for name in _makers_in(present):
        points = [point for point in points_of(present, name, 0.0) if point[0] >= begin]
        if points and points[-1][1] > points[0][1]:
            found.append((name.removeprefix(MAKER_PREFIX), round(points[-1][1] - points[0][1])))
    return tuple(sorted(found, key=lambda each: (-each[1], each[0])))


def _makers_in(samples: Iterable[Sample]) -> set[str]:
    return {name for sample in samples for name in sample.values if name.startswith(MAKER_PREFIX)}


def _growth(present: Sequence[Sample], marks: Iterable[tuple[str, float]]) -> Growth | None:
    """Of the present boot: as it is since it last changed, where there is enough of that."""
    total = points_of(present, ALL)
    makers = _makers_in(present)
    change = derive_change(settled(total)) if len(total) > 1 else None
    since = change if change is not None and sum(at >= change for at, _ in total) >= _LEAST_AFTER_A_CHANGE else None
    begin = float("-inf") if since is None else since
    tracks = {
        name.removeprefix(MAKER_PREFIX): Track([point for point in points_of(present, name, 0.0) if point[0] >= begin])
        for name in makers
    }
    growth = derive_growth([point for point in total if point[0] >= begin], tracks)
    if growth is None or growth.total is None:
        return growth
    whole = growth.total if since is None else growth.total._replace(since=since, is_since_seen=True)
    forecasts = derive_forecasts(whole.now, whole.slope, marks)
    return growth._replace(total=whole, forecasts=forecasts, ids=_ids(present))


def _ids(present: Sequence[Sample]) -> Forecast | None:
    """When the kernel's ids run out: live cgroups hold them, and zombies with pages in swap."""
    held = points_of(present, "ids")
    return derive_ids_forecast(held[-1][1], derive_slope(held), held[-1][0] - held[0][0]) if held else None


def onset_over(samples: Iterable[Sample], mark: int) -> Onset | None:
    """Over every boot that is remembered from before the mark was reached. One sample after another: a month of them is long."""
    reached: list[tuple[float, tuple[Point, Point]]] = []
    boot: str | None = None
    before: Point | None = None
    start, is_below = 0.0, True
    for sample in samples:
        if sample.boot != boot:
            boot, start, before, is_below = sample.boot, sample.at - sample.values.get(UPTIME, 0.0), None, True
        value = sample.values.get(ALL)
        if value is None or not is_below:
            continue
        is_below = value < mark
        if before and not is_below:
            reached.append((start, (before, (sample.at, value))))
        before = (sample.at, value)
    return derive_onset(reached, mark)


def by_boot(samples: Sequence[Sample]) -> list[list[Sample]]:
    return [list(each) for _, each in groupby(samples, key=lambda sample: sample.boot)]


def points_of(samples: Iterable[Sample], name: str, otherwise: float | None = None) -> list[Point]:
    """With `otherwise` a sample that does not have the series has that value: a maker that is not listed has no zombies. But where
    there are zombies and no maker is listed nobody had looked whose they are: an agent that has just begun."""
    return [
        (sample.at, value)
        for sample in samples
        if (value := sample.values.get(name, otherwise)) is not None and (otherwise is None or _tells_makers(sample))
    ]


def _tells_makers(sample: Sample) -> bool:
    zombies = sample.values.get(ALL)
    return zombies is not None and (not zombies or any(name.startswith(MAKER_PREFIX) for name in sample.values))


def pauses(samples: Sequence[Sample]) -> tuple[Pause, ...]:
    steps = sorted(later.at - earlier.at for earlier, later in pairwise(samples) if later.at > earlier.at)
    most = max(_DOWN_FACTOR * median(steps), _LEAST_DOWN_SECONDS) if steps else _LEAST_DOWN_SECONDS
    return tuple(
        Pause(earlier.at, later.at, earlier.boot != later.boot)
        for earlier, later in pairwise(samples)
        if later.at - earlier.at > most or earlier.boot != later.boot
    )


def moment_at(samples: Sequence[Sample], at: float) -> Sample | None:
    """The last sample at or before."""
    before = [sample for sample in samples if sample.at <= at]
    return max(before, key=lambda sample: (sample.at, sample.number), default=None)
