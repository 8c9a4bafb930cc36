# SPDX-License-Identifier: Apache-2.0
"""Do failures follow what we blame? Tested, not asserted: how many cases had the suspected event shortly before them, how many
would by chance, and how often chance does as well (permutation: the cases are moved along the time axis together, so that their
own rhythm stays). The generator is passed in, seeded, so that the same events give the same answer.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import NamedTuple, Protocol

LEAST_CASES = 5
ROUNDS = 999
_CONTROLS = 2_000


class Generator(Protocol):
    def random(self) -> float: ...


class Span(NamedTuple):
    """When somebody watched."""

    begin: float
    end: float

    @property
    def seconds(self) -> float:
        return max(self.end - self.begin, 0.0)


class Correlation(NamedTuple):
    cause: str
    effect: str
    cases: int
    """Effects in the span."""
    preceded: int
    """Of these, how many had the cause within the lag before them."""
    lag_seconds: float
    chance: float | None
    """Share of control moments that had the cause before them; None where nothing was to be compared."""
    lift: float | None
    """How many times more often than by chance; None where chance is nought."""
    p_value: float | None
    """None with fewer than five cases: then nothing is said."""

    @property
    def is_telling(self) -> bool:
        return self.p_value is not None and self.p_value <= 0.05 and (self.lift is None or self.lift > 1)


def derive_correlation(
    cause: tuple[str, Sequence[float]],
    effect: tuple[str, Sequence[float]],
    span: Span,
    lag_seconds: float,
    generator: Generator,
) -> Correlation:
    """Of `effect` events in the span, how many follow a `cause` event within the lag."""
    causes = sorted(at for at in cause[1] if span.begin - lag_seconds <= at <= span.end)
    cases = sorted(at for at in effect[1] if span.begin <= at <= span.end)
    preceded = _preceded(cases, causes, lag_seconds)
    if not cases or span.seconds <= 0:
        return Correlation(cause[0], effect[0], len(cases), preceded, lag_seconds, None, None, None)
    controls = [span.begin + (number + generator.random()) / _CONTROLS * span.seconds for number in range(_CONTROLS)]
    chance = _preceded(controls, causes, lag_seconds) / _CONTROLS
    lift = preceded / len(cases) / chance if chance else None
    p_value = None if len(cases) < LEAST_CASES else _p_value(cases, causes, span, lag_seconds, generator)
    return Correlation(cause[0], effect[0], len(cases), preceded, lag_seconds, chance, lift, p_value)


def _preceded(cases: Sequence[float], causes: Sequence[float], lag: float) -> int:
    return sum(bisect_right(causes, at) > bisect_left(causes, at - lag) for at in cases)


def _p_value(cases: Sequence[float], causes: Sequence[float], span: Span, lag: float, generator: Generator) -> float:
    """All cases moved by the same distance round the span, many times. A tie counts against us."""
    seen = _preceded(cases, causes, lag)
    above = ties = 0
    for _ in range(ROUNDS):
        shift = generator.random() * span.seconds
        moved = [span.begin + (at - span.begin + shift) % span.seconds for at in cases]
        count = _preceded(moved, causes, lag)
        above, ties = above + (count > seen), ties + (count == seen)
    return (above + ties + 1) / (ROUNDS + 1)
