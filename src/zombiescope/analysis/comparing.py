# SPDX-License-Identifier: Apache-2.0
"""Is one rate lower than another, or might chance alone make it so? For things that are counted (Poisson, exact), for shares of
tries (Fisher, exact), and for time that comes in bursts (blocks of time, permuted). The generator is passed in, seeded, so that the
same numbers give the same answer."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple, Protocol

from zombiescope.analysis.exact_test import log_choose
from zombiescope.facts.history import Interval

LEAST_CASES = 5
ROUNDS = 999
_CONTROLS = 2_000


class Generator(Protocol):
    def random(self) -> float: ...


class Correlation(NamedTuple):
    cause: str
    effect: str
    cases: int
    """Effects while both were watched."""
    preceded: int
    """Of these, how many had the cause within the lag before them."""
    lag_seconds: float
    chance: float | None
    """Share of control moments that had the cause before them; None where nothing was to be compared."""
    lift: float | None
    """How many times more often than by chance; None where chance is zero."""
    p_value: float | None
    """None with fewer than five cases: then nothing is said."""

    @property
    def is_telling(self) -> bool:
        return self.p_value is not None and self.p_value <= 0.05 and (self.lift is None or self.lift > 1)


def derive_correlation(
    cause: tuple[str, Sequence[float]],
    effect: tuple[str, Sequence[float]],
    watched: Sequence[Interval],
    lag_seconds: float,
    generator: Generator,
) -> Correlation:
    """Of `effect` events, how many follow a `cause` event within the lag. `watched`: when both would have been seen."""
    axis = _Axis(watched)
    # What came just before anybody watched both may still be the cause of the first case.
    causes = sorted(axis.places(cause[1], before=lag_seconds))
    cases = sorted(axis.places(effect[1]))
    preceded = _preceded(cases, causes, lag_seconds)
    if not cases or axis.seconds <= 0:
        return Correlation(cause[0], effect[0], len(cases), preceded, lag_seconds, None, None, None)
    controls = [(number + generator.random()) / _CONTROLS * axis.seconds for number in range(_CONTROLS)]
    chance = _preceded(controls, causes, lag_seconds) / _CONTROLS
    lift = preceded / len(cases) / chance if chance else None
    p_value = None if len(cases) < LEAST_CASES else _p_value(cases, causes, axis.seconds, lag_seconds, generator)
    return Correlation(cause[0], effect[0], len(cases), preceded, lag_seconds, chance, lift, p_value)


def joined(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """In order, those that touch made one."""
    found: list[Interval] = []
    for each in sorted(intervals):
        if found and each.begin <= found[-1].end:
            found[-1] = Interval(found[-1].begin, max(found[-1].end, each.end))
        else:
            found.append(each)
    return tuple(found)


def common(one: Iterable[Interval], other: Iterable[Interval]) -> tuple[Interval, ...]:
    """When both were watched; each must be `joined`."""
    return tuple(
        Interval(max(left.begin, right.begin), min(left.end, right.end))
        for left in one
        for right in other
        if min(left.end, right.end) >= max(left.begin, right.begin)
    )


class _Axis:
    """Watched time end to end, beginning at zero."""

    def __init__(self, watched: Sequence[Interval]) -> None:
        self._pieces: list[tuple[Interval, float]] = []
        self.seconds = 0.0
        for each in watched:
            self._pieces.append((each, self.seconds))
            self.seconds += each.seconds

    def places(self, times: Iterable[float], before: float = 0.0) -> list[float]:
        found = []
        for at in times:
            for number, (piece, start) in enumerate(self._pieces):
                if piece.begin - (0.0 if number else before) <= at <= piece.end:
                    found.append(start + at - piece.begin)
                    break
        return found


def _preceded(cases: Sequence[float], causes: Sequence[float], lag: float) -> int:
    return sum(bisect_right(causes, at) > bisect_left(causes, at - lag) for at in cases)


def _p_value(
    cases: Sequence[float], causes: Sequence[float], seconds: float, lag: float, generator: Generator
) -> float:
    """All cases moved by the same distance round the axis, many times. A tie counts against us."""
    seen = _preceded(cases, causes, lag)
    above = ties = 0
    for _ in range(ROUNDS):
        shift = generator.random() * seconds
        count = _preceded([(at + shift) % seconds for at in cases], causes, lag)
        above, ties = above + (count > seen), ties + (count == seen)
    return (above + ties + 1) / (ROUNDS + 1)


class Direction(StrEnum):
    BETTER = "better"
    SAME = "same"
    WORSE = "worse"
    UNKNOWN = "unknown"


class Measure(NamedTuple):
    value: float | None
    """None: it could not be measured; the row says why."""
    seconds: float
    """How long it was watched for this."""
    source: str
    """history, window, events, prometheus, or nothing."""
    low: float | None = None
    high: float | None = None
    """In 95 of 100 cases the true rate lies between them; None where it is no rate of counted things."""
    number: int | None = None
    """Of counted things: how many."""


class ComparedRow(NamedTuple):
    what: str
    unit: str
    before: Measure
    after: Measure
    verdict: Direction
    why: str = ""


NOT_MEASURED = Measure(None, 0.0, "nothing")


BETTER_LEVEL, WORSE_LEVEL = 0.05, 0.01
"""Of chance, one-sided. A dozen numbers are compared at once: worse is said only when it is hardly chance."""


class Chances(NamedTuple):
    """How often chance alone gives an `after` as low, and as high, if nothing changed."""

    lower: float
    higher: float

    @property
    def change(self) -> Direction:
        if self.lower <= BETTER_LEVEL:
            return Direction.BETTER
        return Direction.WORSE if self.higher <= WORSE_LEVEL else Direction.SAME


def compare_counts(before: int, before_seconds: float, after: int, after_seconds: float) -> Chances:
    """Given how many there were in all, each fell into `after` with the share of its time."""
    whole = before + after
    if not whole or before_seconds <= 0 or after_seconds <= 0:
        return Chances(1.0, 1.0)
    share = after_seconds / (before_seconds + after_seconds)
    return Chances(_binomial_at_most(after, whole, share), 1.0 - _binomial_at_most(after - 1, whole, share))


def rate_range(count: int, seconds: float) -> tuple[float, float]:
    """Per second, 95 %, exact."""
    if seconds <= 0:
        return 0.0, math.inf
    low = 0.0 if not count else _solve(lambda mean: 1.0 - _poisson_at_most(count - 1, mean) - 0.025, count)
    high = _solve(lambda mean: 0.025 - _poisson_at_most(count, mean), count + 10.0)
    return low / seconds, high / seconds


def compare_shares(before: tuple[int, int], after: tuple[int, int]) -> Chances:
    """Each: how many, of how many. Exact, by Fisher."""
    (hits, tries), (later_hits, later_tries) = before, after
    if not tries or not later_tries:
        return Chances(1.0, 1.0)
    whole, all_hits = tries + later_tries, hits + later_hits
    weights = {
        found: log_choose(later_tries, found) + log_choose(tries, all_hits - found) - log_choose(whole, all_hits)
        for found in range(max(0, all_hits - tries), min(later_tries, all_hits) + 1)
    }
    lower = sum(math.exp(weight) for found, weight in weights.items() if found <= later_hits)
    higher = sum(math.exp(weight) for found, weight in weights.items() if found >= later_hits)
    return Chances(min(lower, 1.0), min(higher, 1.0))


Blocks = Sequence[tuple[float, float]]


def compare_blocks(before: Blocks, after: Blocks, generator: Generator) -> Chances:
    """Each block: its length and how much fell into it. Blocks are dealt out anew, many times."""
    if not before or not after:
        return Chances(1.0, 1.0)
    blocks, number = [*before, *after], len(after)
    seen = _mean(after)
    below = above = 0
    for _ in range(ROUNDS):
        for place in range(number):
            other = place + int(generator.random() * (len(blocks) - place))
            blocks[place], blocks[other] = blocks[other], blocks[place]
        found = _mean(blocks[:number])
        below, above = below + (found <= seen + 1e-12), above + (found >= seen - 1e-12)
    return Chances((below + 1) / (ROUNDS + 1), (above + 1) / (ROUNDS + 1))


def _mean(blocks: Sequence[tuple[float, float]]) -> float:
    whole = sum(seconds for seconds, _ in blocks)
    return sum(value for _, value in blocks) / whole if whole > 0 else 0.0


def _binomial_at_most(count: int, whole: int, share: float) -> float:
    if count < 0:
        return 0.0
    if not 0 < share < 1:
        return 1.0
    hit, miss = math.log(share), math.log1p(-share)
    terms = (log_choose(whole, n) + n * hit + (whole - n) * miss for n in range(min(count, whole) + 1))
    return min(sum(map(math.exp, terms)), 1.0)


def _poisson_at_most(count: int, mean: float) -> float:
    if count < 0:
        return 0.0
    if mean <= 0:
        return 1.0
    return min(sum(math.exp(n * math.log(mean) - mean - math.lgamma(n + 1)) for n in range(count + 1)), 1.0)


def _solve(error: Callable[[float], float], guess: float) -> float:
    """Where a growing function crosses zero."""
    low, high = 0.0, max(guess, 1.0)
    while error(high) < 0 and high < 1e12:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if error(middle) < 0 else (low, middle)
    return (low + high) / 2


class ShareChange(NamedTuple):
    """When a success rate changed."""

    at: float
    before: tuple[int, int]
    """How many went well, of how many."""
    after: tuple[int, int]


_LEAST_TRIES = 5
_LEAST_GAIN = 4.0
"""In natural logarithms of likelihood: one of fifty series of the same length and no change has a split that good."""


def share_change(tries: Sequence[tuple[float, bool]]) -> ShareChange | None:
    """The split in two that makes the outcomes most likely, where it explains them much better than one rate; None where not.
    `tries`: when each ended, and whether it went well, in order of time."""
    total, good = len(tries), sum(ok for _, ok in tries)
    whole = _likelihood(good, total)
    best: tuple[float, int, int] | None = None
    so_far = 0
    for place, (_, ok) in enumerate(tries[:-1], 1):
        so_far += ok
        if place < _LEAST_TRIES or total - place < _LEAST_TRIES or tries[place][0] <= tries[place - 1][0]:
            continue
        gain = _likelihood(so_far, place) + _likelihood(good - so_far, total - place) - whole
        if best is None or gain > best[0]:
            best = (gain, place, so_far)
    needed = _LEAST_GAIN + 0.5 * math.log(max(total, 1))
    if best is None or best[0] < needed:
        return None
    _, place, first = best
    return ShareChange(tries[place][0], (first, place), (good - first, total - place))


def _likelihood(good: int, total: int) -> float:
    """The logarithm, at the rate that fits best."""
    return sum(count * math.log(count / total) for count in (good, total - good) if count)
