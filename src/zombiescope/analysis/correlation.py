# SPDX-License-Identifier: Apache-2.0
"""Do failures follow what we blame? Tested, not asserted: how many cases had the suspected event shortly before them, how many
would by chance, and how often chance does as well (permutation: the cases are moved along the time axis together, so that their
own rhythm stays). Time in which one of the two was not watched is cut out of the axis. The generator is passed in, seeded, so that
the same events give the same answer.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

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
