# SPDX-License-Identifier: Apache-2.0
"""Did it get better? Each number of before and after as a rate with its uncertainty, never raw seconds of unlike windows. What
comes in bursts is compared by blocks of time, so that a spike every few minutes is part of the baseline."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from zombiescope.analysis.comparing import (
    NOT_MEASURED,
    Chances,
    ComparedRow,
    Direction,
    Generator,
    Measure,
    compare_blocks,
    compare_counts,
    compare_shares,
    rate_range,
)
from zombiescope.analysis.trend import Slope, derive_slope, median, settled
from zombiescope.facts.history import MAKER_PREFIX, Sample

HOUR = 3600.0
_LONGEST_STEP = 90.0
"""Between two samples: beyond it nobody watched."""
_BLOCK_SECONDS = 60.0
_LEAST_BLOCKS = 5
_LEAST_SHARE = 0.2
"""A change by less than a fifth is none, however sure."""
OURS, ALL = "ours", "zombies"


class Period(NamedTuple):
    samples: Sequence[Sample]
    source: str
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        """Watched, pauses left out."""
        return sum(min(later.at - earlier.at, _LONGEST_STEP) for earlier, later in _steps(self.samples))


class Tries(NamedTuple):
    """Jobs that ended in a period."""

    failed: int
    ended: int | None
    """All of them; None where only failures are known."""
    seconds: float
    source: str = "events"


class Burst(NamedTuple):
    """Time that adds up: a share of a core, or of the time."""

    what: str
    series: tuple[str, ...]
    unit: str
    least: float
    """A share below which it is as good as nothing."""


BURSTS = (
    Burst("saturated cores", ("saturated_seconds",), "cores", 0.002),
    Burst("reclaim", ("reclaim_tasks_seconds", "kswapd_seconds"), "cores", 0.01),
    Burst("memory pressure", ("memory_stalled_seconds",), "share of the time", 0.01),
    Burst("CPU pressure", ("cpu_stalled_seconds",), "share of the time", 0.05),
    Burst("throttling", ("throttled_seconds",), "seconds per second", 0.01),
    Burst("ksoftirqd waits", ("softirq_wait_seconds",), "cores", 0.005),
    Burst("network waits for a core", ("poll_waited_seconds",), "cores", 0.001),
    Burst("readers of statistics", ("sweeper_seconds",), "cores", 0.01),
)
COUNTS = (("late polls", "poll_waits_long"), ("network card resets", "nic_resets"))
LEVELS = (("one sweep", "sweep_seconds", "seconds"), ("poll latency p99.9", "poll_wait_p999_seconds", "seconds"))


def derive_rows(
    before: Period,
    after: Period,
    makers: Sequence[str],
    jobs: tuple[Tries, Tries] | None = None,
    *,
    generator: Generator,
) -> tuple[ComparedRow, ...]:
    """`makers`: whose zombies the plan was about; none for all."""
    return (
        *_zombies(before, after, makers),
        _counted("restarts of the maker", "restarts", before, after),
        *(_burst(each, before, after, generator) for each in BURSTS),
        *(_counted(what, series, before, after) for what, series in COUNTS),
        *(_level(what, series, unit, before, after) for what, series, unit in LEVELS),
        *([_jobs(*jobs)] if jobs is not None else ()),
    )


def _steps(samples: Sequence[Sample]) -> Iterable[tuple[Sample, Sample]]:
    """Of one boot, forward in time, with nothing missed between them."""
    return (
        (earlier, later)
        for earlier, later in pairwise(samples)
        if earlier.boot == later.boot and 0 < later.at - earlier.at <= _LONGEST_STEP
    )


def _values(period: Period, makers: Sequence[str]) -> list[tuple[float, float]]:
    """Zombies of the plan: counted for it, or by its makers, or all."""
    found = []
    for sample in period.samples:
        if OURS in sample.values:
            found.append((sample.at, sample.values[OURS]))
        elif makers and any(name.startswith(MAKER_PREFIX) for name in sample.values):
            found.append((sample.at, sum(sample.values.get(MAKER_PREFIX + maker, 0.0) for maker in makers)))
        elif not makers and ALL in sample.values:
            found.append((sample.at, sample.values[ALL]))
    return found


def _zombies(before: Period, after: Period, makers: Sequence[str]) -> list[ComparedRow]:
    then, now = _values(before, makers), _values(after, makers)
    first, last = _stock(then, before), _stock(now, after)
    growth = _slope(then), _slope(now)
    return [
        ComparedRow("zombies", "at the end", first, last, *_stock_change(first, last)),
        ComparedRow(
            "growth", "per hour", _growth(growth[0], before), _growth(growth[1], after), *_growth_change(*growth)
        ),
    ]


def _stock(points: list[tuple[float, float]], period: Period) -> Measure:
    return Measure(points[-1][1], period.seconds, period.source) if points else NOT_MEASURED


def _stock_change(first: Measure, last: Measure) -> tuple[Direction, str]:
    if first.value is None or last.value is None:
        return Direction.UNKNOWN, _missing(first, last)
    if abs(last.value - first.value) <= max(2, 0.05 * first.value):
        return Direction.SAME, ""
    return (Direction.BETTER if last.value < first.value else Direction.WORSE), ""


def _slope(points: list[tuple[float, float]]) -> Slope | None:
    calm = settled(points)
    return derive_slope(calm) if len(calm) >= 4 else None


def _growth(slope: Slope | None, period: Period) -> Measure:
    if slope is None:
        return NOT_MEASURED
    return Measure(slope.per_second * HOUR, period.seconds, period.source, slope.low * HOUR, slope.high * HOUR)


def _growth_change(before: Slope | None, after: Slope | None) -> tuple[Direction, str]:
    if after is None:
        return Direction.UNKNOWN, "too few looks to tell growth"
    if before is None:
        return Direction.UNKNOWN, "growth before is not known"
    if after.high < before.low and before.per_second > 0:
        return Direction.BETTER, ""
    return (Direction.WORSE, "") if after.low > max(before.high, 0.0) else (Direction.SAME, "")


def increments(samples: Sequence[Sample], names: Sequence[str]) -> list[tuple[float, float, float]]:
    """When each step began, its seconds, and how much more there was of these counters together; a counter that ran backwards began
    anew, and says nothing. A step in which none of them is told is left out."""
    found = []
    for earlier, later in _steps(samples):
        known = [name for name in names if name in earlier.values and name in later.values]
        more = [later.values[name] - earlier.values[name] for name in known]
        if more and min(more) >= 0:
            found.append((earlier.at, later.at - earlier.at, sum(more)))
    return found


def _blocks(steps: Sequence[tuple[float, float, float]], size: float) -> list[tuple[float, float]]:
    found: dict[int, list[float]] = {}
    for at, seconds, value in steps:
        block = found.setdefault(int((at - steps[0][0]) // size), [0.0, 0.0])
        block[0] += seconds
        block[1] += value
    whole = [(seconds, value) for seconds, value in found.values() if seconds >= size / 2]
    return whole or [(seconds, value) for seconds, value in found.values()]


def _burst(burst: Burst, before: Period, after: Period, generator: Generator) -> ComparedRow:
    steps = [increments(period.samples, burst.series) for period in (before, after)]
    first, last = (_share(each, period) for each, period in zip(steps, (before, after), strict=True))
    if first.value is None or last.value is None:
        return ComparedRow(burst.what, burst.unit, first, last, Direction.UNKNOWN, _missing(first, last))
    size = min(_BLOCK_SECONDS, max(last.seconds / (2 * _LEAST_BLOCKS), 1.0))
    blocks = [_blocks(each, size) for each in steps]
    if min(len(each) for each in blocks) < _LEAST_BLOCKS:
        return ComparedRow(burst.what, burst.unit, first, last, Direction.UNKNOWN, "watched for too short a time")
    verdict = _judged(compare_blocks(blocks[0], blocks[1], generator), first.value, last.value, burst.least)
    return ComparedRow(burst.what, burst.unit, first, last, *verdict)


def _share(steps: Sequence[tuple[float, float, float]], period: Period) -> Measure:
    seconds = sum(step[1] for step in steps)
    return Measure(sum(step[2] for step in steps) / seconds, seconds, period.source) if seconds else NOT_MEASURED


def _judged(chances: Chances, first: float, last: float, least: float) -> tuple[Direction, str]:
    if (first < least and last < least) or abs(last - first) < _LEAST_SHARE * max(first, last):
        return Direction.SAME, ""
    change = chances.change
    if change is Direction.SAME and last < least:
        return Direction.UNKNOWN, "none seen, and it is rare enough that this may be chance: watch longer"
    return change, ""


def _counted(what: str, series: str, before: Period, after: Period) -> ComparedRow:
    first, last = (_rate(period, series) for period in (before, after))
    if first.value is None or last.value is None:
        return ComparedRow(what, "per hour", first, last, Direction.UNKNOWN, _missing(first, last))
    change, why = compare_counts(first.number or 0, first.seconds, last.number or 0, last.seconds).change, ""
    if change is Direction.SAME and first.number and not last.number:
        change, why = Direction.UNKNOWN, "none seen, and they are rare enough that this may be chance: watch longer"
    elif change is not Direction.WORSE and last.number:
        why = "goes on" if change is Direction.SAME else "fewer, and not gone"
    return ComparedRow(what, "per hour", first, last, change, why)


def _rate(period: Period, series: str) -> Measure:
    steps = increments(period.samples, (series,))
    seconds = sum(step[1] for step in steps)
    return _per_hour(round(sum(step[2] for step in steps)), seconds, period.source) if seconds else NOT_MEASURED


def _per_hour(number: int, seconds: float, source: str) -> Measure:
    low, high = rate_range(number, seconds)
    return Measure(number / seconds * HOUR, seconds, source, low * HOUR, high * HOUR, number)


def _level(what: str, series: str, unit: str, before: Period, after: Period) -> ComparedRow:
    """By the median of each, and its quarters: a level has no rate."""
    told = [
        sorted(sample.values[series] for sample in period.samples if series in sample.values)
        for period in (before, after)
    ]
    first, last = (_middle(each, period) for each, period in zip(told, (before, after), strict=True))
    if first.value is None or last.value is None:
        return ComparedRow(what, unit, first, last, Direction.UNKNOWN, _missing(first, last))
    assert first.low is not None
    assert first.high is not None
    is_apart = (last.high or 0.0) < first.low or (last.low or 0.0) > first.high
    if not is_apart or abs(last.value - first.value) < _LEAST_SHARE * max(first.value, last.value):
        return ComparedRow(what, unit, first, last, Direction.SAME)
    return ComparedRow(what, unit, first, last, Direction.BETTER if last.value < first.value else Direction.WORSE)


def _middle(ordered: list[float], period: Period) -> Measure:
    if not ordered:
        return NOT_MEASURED
    quarter = len(ordered) // 4
    return Measure(median(ordered), period.seconds, period.source, ordered[quarter], ordered[-1 - quarter])


def _jobs(before: Tries, after: Tries) -> ComparedRow:
    if before.ended is not None and after.ended is not None and before.ended + after.ended:
        return _success(before, after, before.ended, after.ended)
    first, last = (
        _per_hour(each.failed, each.seconds, each.source) if each.seconds > 0 else NOT_MEASURED
        for each in (before, after)
    )
    change, why = compare_counts(before.failed, before.seconds, after.failed, after.seconds).change, ""
    if change is Direction.SAME and before.failed and not after.failed:
        change, why = (
            Direction.UNKNOWN,
            "none failed, and failures are rare enough that this may be chance: watch longer",
        )
    return ComparedRow("job failures", "per hour", first, last, change, why)


def _success(before: Tries, after: Tries, tried: int, later: int) -> ComparedRow:
    first = Measure((tried - before.failed) / tried if tried else None, before.seconds, before.source, number=tried)
    last = Measure((later - after.failed) / later if later else None, after.seconds, after.source, number=later)
    if not tried or not later:
        return ComparedRow("job success", "share", first, last, Direction.UNKNOWN, "no job ended in one of the two")
    chances = compare_shares((before.failed, tried), (after.failed, later))
    return ComparedRow("job success", "share", first, last, chances.change)


Points = Sequence[tuple[float, float]]


def query_row(before: Points, after: Points, generator: Generator, *, higher_is_better: bool) -> ComparedRow:
    """A number that somebody else keeps over time: points a step apart."""
    what = "success rate asked for" if higher_is_better else "failures asked for"
    first, last = (_asked(points) for points in (before, after))
    if first.value is None or last.value is None:
        return ComparedRow(what, "mean", first, last, Direction.UNKNOWN, _missing(first, last))
    sign = -1.0 if higher_is_better else 1.0
    sides = [[(1.0, sign * value) for _, value in points] for points in (before, after)]
    change = compare_blocks(sides[0], sides[1], generator).change
    is_same = abs(last.value - first.value) < 0.02 * max(abs(first.value), abs(last.value))
    return ComparedRow(what, "mean", first, last, Direction.SAME if is_same else change)


def _asked(points: Points) -> Measure:
    if not points:
        return NOT_MEASURED
    return Measure(sum(value for _, value in points) / len(points), points[-1][0] - points[0][0], "prometheus")


def _missing(first: Measure, last: Measure) -> str:
    if first.value is None and last.value is None:
        return "it could not be measured here"
    return "before is not known" if first.value is None else "after could not be measured"
