# SPDX-License-Identifier: Apache-2.0
"""Exact tests. Two-by-two tables: Fisher's test, the odds ratio with its range, tests within strata, false discoveries among many.

And numbers of two groups of nodes, by ranks, not samples: a node counts once, however often it was sampled. Wilcoxon, Mann and
Whitney's rank sum test, exact for few nodes; Hodges and Lehmann's shift with the range that goes with it. Nothing is drawn at
random: the same numbers give the same answer.
"""

import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

LEAST_NODES = 5
"""A smaller cohort says nothing: four of four sick come by chance too often among thousands of cohorts."""
MOST_Q = 0.01
"""One false call in a hundred: over ten fleets without a cause, most likely none."""
_NEGLIGIBLE = 1e-17
_SAME = 1 + 1e-7
"""Tables as likely as the one seen count, whatever the rounding."""
_DEVIATIONS = 1.959963984540054  # a range that holds the true ratio in 95 of 100


class TwoByTwo(NamedTuple):
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


def odds_ratio(table: TwoByTwo) -> OddsRatio:
    """Where a cell is empty half a node is added to each (Haldane and Anscombe), so that the ratio stays a number."""
    extra = 0.0 if all(table) else 0.5
    a, b, c, d = (cell + extra for cell in table)
    ratio, spread = a * d / (b * c), math.sqrt(1 / a + 1 / b + 1 / c + 1 / d)
    factor = math.exp(min(_DEVIATIONS * spread, 700))
    return OddsRatio(ratio, ratio / factor, ratio * factor)


def fisher_p(table: TwoByTwo) -> float:
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
        total = 0.0
        for number in range(start, end + step, step):
            term = math.exp(self.log(number))
            total += term
            if term <= total * _NEGLIGIBLE:
                break
        return total


def _first_unlikely(law: _Hypergeometric, seen: float, mode: int, end: int) -> int | None:
    """The table nearest to the mode that is no likelier than the one seen: likelihood falls from the mode outwards."""
    limit = seen + math.log(_SAME)
    if law.log(end) > limit:
        return None
    outwards = range(mode, end + 1) if end >= mode else range(mode, end - 1, -1)
    return outwards[bisect_left(outwards, True, key=lambda number: law.log(number) <= limit)]


def log_choose(count: int, chosen: int) -> float:
    return math.lgamma(count + 1) - math.lgamma(chosen + 1) - math.lgamma(count - chosen + 1)


class Stratified(NamedTuple):
    """One association seen within strata (Mantel and Haenszel): what is left of it when the strata are held still."""

    p_value: float
    odds_ratio: float | None
    """None where no stratum has both kinds on both sides."""
    gain: float
    """How much better the strata are told apart by it: twice the log likelihood."""


def stratified(tables: Sequence[TwoByTwo]) -> Stratified:
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


def _gain(table: TwoByTwo) -> float:
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


LEAST_SHIFT = 0.002
"""A fifth of a percent of the time: less is no finding, however sure."""
_MOST_EXACT = 40
_LIMB = 64
_MOST_THINNED = 400
_MOST_LARGE = 20
_LEAST_FOR_A_RANGE = 6
"""The range from the lowest to the highest of five nodes misses the median in 1 of 16 cases."""


class NodeShift(NamedTuple):
    mean: float
    other: float
    low: float
    middle: float
    high: float
    """How far the first group lies above the second: 95 of 100 such ranges hold the truth. Without bounds where nobody looks: the
    chance is too large, and others differ more."""
    p_value: float
    q_value: float

    @property
    def is_found(self) -> bool:
        return self.q_value <= MOST_Q and abs(self.mean - self.other) >= LEAST_SHIFT and self.low * self.high > 0


class GroupsCompared(NamedTuple):
    shifts: tuple[NodeShift, ...]
    """One for each number that was compared, in their order."""
    too_few: str
    """Why no difference could be called one, whatever it is; empty where one could."""
    unsure: str
    """Why one that stands alone could not, though several together could; empty where it could."""


def compare_groups(
    numbers: Sequence[tuple[Sequence[float], Sequence[float]]], first: int, second: int
) -> GroupsCompared:
    """`numbers`: of each thing compared, its values on the nodes of both groups, of these sizes."""
    if min(first, second) < LEAST_NODES:
        return GroupsCompared((), f"at least {LEAST_NODES} nodes of each kind are needed", "")
    chances = [rank_sum_p(*each) for each in numbers]
    means = [(_mean(one), _mean(other)) for one, other in numbers]
    largest = sorted(range(len(numbers)), key=lambda number: -abs(means[number][0] - means[number][1]))
    worth = set(largest[:_MOST_LARGE])
    shifts = []
    for number, (chance, rate) in enumerate(zip(chances, false_discovery(chances), strict=True)):
        is_worth = rate <= MOST_Q or number in worth
        around = shift_range(*numbers[number]) if is_worth else (-math.inf, math.nan, math.inf)
        shifts.append(NodeShift(*means[number], *around, chance, rate))
    rarest = least_p(first, second)
    unsure = f"so few nodes part completely by chance once in {1 / rarest:,.0f} times"
    return GroupsCompared(tuple(shifts), "", unsure if rarest * len(numbers) > MOST_Q else "")


def least_p(first: int, second: int) -> float:
    """Of two groups that do not overlap at all."""
    return min(1.0, 2 / math.comb(first + second, first))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def rank_sum_p(one: Sequence[float], other: Sequence[float]) -> float:
    """Two-sided. Equal values share their ranks."""
    both = sorted([*one, *other])
    if both[0] == both[-1]:
        return 1.0
    doubled = [bisect_left(both, value) + bisect_right(both, value) + 1 for value in one]
    if len(both) <= _MOST_EXACT:
        every = [bisect_left(both, value) + bisect_right(both, value) + 1 for value in both]
        return _exact(every, len(one), sum(doubled))
    return _nearly_normal(both, len(one), len(other), sum(doubled) / 2)


def _exact(ranks: Sequence[int], chosen: int, seen: int) -> float:
    """Of all ways to choose so many of these doubled ranks, the share whose sum is as far from the mean.

    The ways by sum are the digits of one large number, so that adding a rank is a shift and a sum.
    """
    ways = [1] + [0] * chosen
    for rank in ranks:
        for count in range(chosen, 0, -1):
            ways[count] += ways[count - 1] << (rank * _LIMB)
    mean = chosen * sum(ranks) / len(ranks)
    distance, far, whole, place = abs(seen - mean) - 1e-9, 0, ways[chosen], 0
    digits = whole.to_bytes((whole.bit_length() + 7) // 8 + _LIMB // 8, "little")
    for place in range(len(digits) // (_LIMB // 8)):
        many = int.from_bytes(digits[place * _LIMB // 8 : (place + 1) * _LIMB // 8], "little")
        if many and abs(place - mean) >= distance:
            far += many
    return min(1.0, far / math.comb(len(ranks), chosen))


def _nearly_normal(both: Sequence[float], first: int, second: int, ranks: float) -> float:
    total = first + second
    ties = sum(count**3 - count for count in Counter(both).values())
    variance = first * second / 12 * ((total + 1) - ties / (total * (total - 1)))
    away = max(0.0, abs(ranks - first * (total + 1) / 2) - 0.5)
    return math.erfc(away / math.sqrt(2 * variance)) if variance > 0 else 1.0


def shift_range(one: Sequence[float], other: Sequence[float]) -> tuple[float, float, float]:
    """The middle of all differences between a node of one group and one of the other, and its 95 % range, by the rank test turned
    round. Groups of very many nodes are thinned to evenly spaced ranks."""
    left, right = _thinned(one), _thinned(other)
    differences = sorted(a - b for a in left for b in right)
    first, second = len(one), len(other)
    spread = math.sqrt(first * second * (first + second + 1) / 12) / (first * second)
    outside = max(0.0, 0.5 - _DEVIATIONS * spread)
    skipped = min(int(outside * len(differences)), (len(differences) - 1) // 2)
    middle = len(differences) // 2
    median = differences[middle] if len(differences) % 2 else (differences[middle - 1] + differences[middle]) / 2
    return differences[skipped], median, differences[-1 - skipped]


def _thinned(values: Sequence[float]) -> list[float]:
    ordered = sorted(values)
    if len(ordered) <= _MOST_THINNED:
        return ordered
    step = len(ordered) / _MOST_THINNED
    return [ordered[int((place + 0.5) * step)] for place in range(_MOST_THINNED)]


def median_range(values: Sequence[float]) -> tuple[float, float, float] | None:
    """The median over nodes and the 95 % range of it, by counting alone; None where there are too few."""
    ordered = sorted(values)
    count = len(ordered)
    if count < _LEAST_FOR_A_RANGE:
        return None
    inside, rank = 0.0, 0
    while True:  # as many at each end as leave 95 of 100
        inside += 2 * math.exp(log_choose(count, rank) - count * math.log(2))
        if inside > 0.05:
            break
        rank += 1
    middle = (ordered[(count - 1) // 2] + ordered[count // 2]) / 2
    return ordered[max(0, rank - 1)], middle, ordered[min(count - 1, count - rank)]
