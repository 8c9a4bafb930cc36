# SPDX-License-Identifier: Apache-2.0
"""Two-by-two tables: Fisher's exact test, the odds ratio with its range, tests within strata, false discoveries among many."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_NEGLIGIBLE = 1e-17
_SAME = 1 + 1e-7
"""Tables as likely as the one seen count, whatever the rounding."""
_DEVIATIONS = 1.959963984540054  # a range that holds the true ratio in 95 of 100


class Table(NamedTuple):
    """Sick and well nodes inside a cohort, and outside it."""

    sick_in: int
    well_in: int
    sick_out: int
    well_out: int

    @property
    def total(self) -> int:
        return sum(self)


class OddsRatio(NamedTuple):
    value: float
    low: float
    high: float


def odds_ratio(table: Table) -> OddsRatio:
    """Where a cell is empty half a node is added to each (Haldane and Anscombe), so that the ratio stays a number."""
    extra = 0.0 if all(table) else 0.5
    a, b, c, d = (cell + extra for cell in table)
    ratio, spread = a * d / (b * c), math.sqrt(1 / a + 1 / b + 1 / c + 1 / d)
    factor = math.exp(min(_DEVIATIONS * spread, 700))
    return OddsRatio(ratio, ratio / factor, ratio * factor)


def fisher_p(table: Table) -> float:
    """Two-sided: the probability, with these margins, of all tables that are no likelier than this one."""
    inside, sick, total = table.sick_in + table.well_in, table.sick_in + table.sick_out, table.total
    least, most = max(0, inside + sick - total), min(inside, sick)
    if least == most:
        return 1.0
    law = _Hypergeometric(total, sick, inside)
    seen = law.log(table.sick_in)
    mode = min(max((inside + 1) * (sick + 1) // (total + 2), least), most)
    if law.log(mode) <= seen + math.log(_SAME):
        return 1.0
    above = _first_unlikely(law, seen, mode, most)
    below = _first_unlikely(law, seen, mode, least)
    return min(law.tail(above, most) + law.tail(below, least), 1.0)


class _Hypergeometric:
    def __init__(self, total: int, marked: int, drawn: int) -> None:
        self._total, self._marked, self._drawn = total, marked, drawn
        self._all = log_choose(total, drawn)

    def log(self, number: int) -> float:
        rest = log_choose(self._total - self._marked, self._drawn - number)
        return log_choose(self._marked, number) + rest - self._all

    def tail(self, start: int | None, end: int) -> float:
        """From `start` outwards to `end`, until what is added no longer counts."""
        if start is None:
            return 0.0
        step = 1 if end >= start else -1
        total, number = 0.0, start
        while (end - number) * step >= 0:
            term = math.exp(self.log(number))
            total += term
            if term <= total * _NEGLIGIBLE:
                break
            number += step
        return total


def _first_unlikely(law: _Hypergeometric, seen: float, mode: int, end: int) -> int | None:
    """The table nearest to the mode that is no likelier than the one seen: likelihood falls from the mode outwards."""
    limit = seen + math.log(_SAME)
    if law.log(end) > limit:
        return None
    near, far = mode, end
    while abs(far - near) > 1:
        middle = (near + far) // 2
        if law.log(middle) <= limit:
            far = middle
        else:
            near = middle
    return far


def log_choose(count: int, chosen: int) -> float:
    return math.lgamma(count + 1) - math.lgamma(chosen + 1) - math.lgamma(count - chosen + 1)


class Stratified(NamedTuple):
    """One association seen within strata (Mantel and Haenszel): what is left of it when the strata are held still."""

    p_value: float
    odds_ratio: float | None
    """None where no stratum has both kinds on both sides."""
    gain: float
    """How much better the strata are told apart by it: twice the log likelihood."""


def stratified(tables: Sequence[Table]) -> Stratified:
    excess = variance = above = below = gain = 0.0
    for table in tables:
        total = table.total
        if total < 2:
            continue
        inside, sick = table.sick_in + table.well_in, table.sick_in + table.sick_out
        outside, well = total - inside, total - sick
        excess += table.sick_in - inside * sick / total
        variance += inside * outside * sick * well / (total * total * (total - 1))
        above += table.sick_in * table.well_out / total
        below += table.well_in * table.sick_out / total
        gain += _gain(table)
    if variance <= 0:
        return Stratified(1.0, None, 0.0)
    chi = max(abs(excess) - 0.5, 0.0) ** 2 / variance
    ratio = above / below if below else (math.inf if above else None)
    return Stratified(math.erfc(math.sqrt(chi / 2)), ratio, gain)


def _gain(table: Table) -> float:
    inside, sick, total = table.sick_in + table.well_in, table.sick_in + table.sick_out, table.total
    cells = (
        (table.sick_in, inside * sick),
        (table.well_in, inside * (total - sick)),
        (table.sick_out, (total - inside) * sick),
        (table.well_out, (total - inside) * (total - sick)),
    )
    return 2 * sum(seen * math.log(seen * total / expected) for seen, expected in cells if seen)


def false_discovery(p_values: Iterable[float]) -> list[float]:
    """Benjamini and Hochberg's q: the share of false ones among all that are called at this level or below."""
    values = list(p_values)
    order = sorted(range(len(values)), key=values.__getitem__, reverse=True)
    found, lowest = [1.0] * len(values), 1.0
    for rank, number in zip(range(len(values), 0, -1), order, strict=True):
        lowest = min(lowest, values[number] * len(values) / rank)
        found[number] = lowest
    return found
