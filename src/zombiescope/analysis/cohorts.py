# SPDX-License-Identifier: Apache-2.0
"""What do sick nodes share? Every value of every label, and every pair of them, tested; then which of those are causes and which
are bad only through another one.

A set of nodes is one whole number, a bit per node: intersections and counts of 100,000 nodes take microseconds. A cohort is a
*cause* when it is worse than the rest at a false-discovery rate of one in a hundred, by an odds ratio that is surely above
`LEAST_RATIO`, and stays so when the causes found before it are held still. Whatever is worse and no cause is explained by one.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

from zombiescope.analysis.exact_test import (
    LEAST_NODES,
    MOST_Q,
    OddsRatio,
    Stratified,
    TwoByTwo,
    false_discovery,
    fisher_p,
    odds_ratio,
    stratified,
)

LEAST_RATIO = 1.5
_MOST_CAUSES = 6
_MOST_VALUES_SHARE = 0.2
_MOST_PAIRED_VALUES = 200
MOST_COHORTS = 20_000
"""More pairs than that are not compared: those of the labels that tell most alone are."""
PAIRS = "pairs of labels"

Labels = tuple[tuple[str, str], ...]
"""One label and its value, or two."""


class Cohort(NamedTuple):
    labels: Labels
    nodes: int
    sick: int
    odds: OddsRatio
    p_value: float
    q_value: float
    members: int
    """A bit per node."""
    same_as: tuple[Labels, ...] = ()
    """Other labels with the very same nodes: nobody can tell them apart."""


class Cause(NamedTuple):
    cohort: Cohort
    left: Stratified
    """What is left of it when the other causes are held still."""


class ExplainedCohort(NamedTuple):
    cohort: Cohort
    by: Labels
    left: Stratified
    """What is left of it when that cause is held still."""


class Comparison(NamedTuple):
    nodes: int
    sick: int
    tested: int
    causes: tuple[Cause, ...]
    explained: tuple[ExplainedCohort, ...]
    """Worse than the rest, but through a cause."""
    others: tuple[Cohort, ...]
    """All that were tested beside these, the most telling first."""
    too_small: tuple[tuple[Labels, int, int], ...]
    """With their nodes and how many of those are sick; those with most sick nodes first."""
    left_out: Mapping[str, str]
    """Labels that were not compared, with the reason."""
    only_sick: tuple[Labels, ...] = ()
    """Where no cause is found: one label each that every sick node has and no other node."""
    best_p: float = 0.0
    """Where no cause is found: the smallest chance that any of these cohorts could have had, were all sick nodes in it."""


def compare(nodes: Sequence[Mapping[str, str]], sick: Sequence[bool]) -> Comparison:
    """`nodes`: the labels of each; `sick`: whether it is."""
    everyone, ill = (1 << len(nodes)) - 1, _bits(sick)
    values, left_out = _values(nodes)
    cohorts, too_small = _tested(values, _pairs(values, ill, everyone, left_out), ill, everyone)
    worse = [one for one in cohorts if one.q_value <= MOST_Q and one.odds.low >= LEAST_RATIO]
    singles: dict[Labels, Cohort] = {one.labels: one for one in cohorts if len(one.labels) == 1}
    apart = [one for one in worse if _tells_more(one, singles, ill, everyone)]
    causes = _causes(apart, ill, everyone, len(cohorts))
    explained = tuple(_explanations(worse, causes, ill, everyone))
    named = {cause.cohort.labels for cause in causes} | {each.cohort.labels for each in explained}
    rest = sorted((one for one in cohorts if one.labels not in named), key=lambda one: (one.p_value, one.labels))
    found = Comparison(
        len(nodes), ill.bit_count(), len(cohorts), causes, explained, tuple(rest), tuple(too_small), left_out
    )
    if causes or not 0 < found.sick < found.nodes:
        return found
    alone = [((name, value),) for name, each in values.items() for value, members in each.items() if members == ill]
    best = min((_best_p(cohort, found.sick, found.nodes) for cohort in cohorts), default=1.0)
    return found._replace(only_sick=tuple(alone), best_p=best)


def _best_p(cohort: Cohort, sick: int, nodes: int) -> float:
    most = min(cohort.nodes, sick)
    return fisher_p(TwoByTwo(most, cohort.nodes - most, sick - most, nodes - cohort.nodes - sick + most))


def _bits(flags: Iterable[bool]) -> int:
    """The first node is the lowest bit."""
    text = "".join("1" if flag else "0" for flag in flags)[::-1]
    return int(text, 2) if text else 0


def _values(nodes: Sequence[Mapping[str, str]]) -> tuple[dict[str, dict[str, int]], dict[str, str]]:
    """Of each label its values, each with its nodes. Labels that cannot set nodes apart are left out, and said."""
    places: dict[str, dict[str, list[int]]] = {}
    for number, labels in enumerate(nodes):
        for name, value in labels.items():
            places.setdefault(name, {}).setdefault(value, []).append(number)
    found: dict[str, dict[str, int]] = {}
    left_out: dict[str, str] = {}
    for name, values in sorted(places.items()):
        has = sum(map(len, values.values()))
        if len(values) == 1 and has == len(nodes):
            left_out[name] = "every node has the same value"
        elif len(values) > max(_MOST_VALUES_SHARE * has, 2 * LEAST_NODES):
            left_out[name] = f"it has {len(values):,} values for {has:,} nodes: a name, not a property"
        else:
            found[name] = {value: _set_of(members, len(nodes)) for value, members in values.items()}
    return found, left_out


def _set_of(members: Sequence[int], size: int) -> int:
    marks = bytearray(size // 8 + 1)
    for number in members:
        marks[number >> 3] |= 1 << (number & 7)
    return int.from_bytes(marks, "little")


def _pairs(
    values: Mapping[str, Mapping[str, int]], ill: int, everyone: int, left_out: dict[str, str]
) -> list[tuple[str, str]]:
    """Which labels are compared two by two: all, or of very many labels those that tell most alone; and says so."""
    sizes = {name: len(each) for name, each in values.items()}
    pairs = [pair for pair in combinations(values, 2) if sizes[pair[0]] * sizes[pair[1]] <= _MOST_PAIRED_VALUES**2]
    if sum(sizes[one] * sizes[other] for one, other in pairs) <= MOST_COHORTS:
        return pairs
    telling = {
        name: min(fisher_p(_table(members, ill, everyone)) for members in each.values())
        for name, each in values.items()
    }
    found, left = [], MOST_COHORTS
    for one, other in sorted(pairs, key=lambda pair: (telling[pair[0]] * telling[pair[1]], pair)):
        left -= sizes[one] * sizes[other]
        if left < 0:
            break
        found.append((one, other))
    left_out[PAIRS] = f"{len(pairs) - len(found):,} of {len(pairs):,}, of the labels that tell least alone: too many"
    return found


def _candidates(
    values: Mapping[str, Mapping[str, int]], pairs: Iterable[tuple[str, str]]
) -> Iterator[tuple[Labels, int]]:
    for name, each in values.items():
        for value, members in each.items():
            yield ((name, value),), members
    for one, other in pairs:
        for value, members in values[one].items():
            if members.bit_count() < LEAST_NODES:
                continue
            for second, more in values[other].items():
                if both := members & more:
                    yield ((one, value), (other, second)), both


def _tested(
    values: Mapping[str, Mapping[str, int]], pairs: Iterable[tuple[str, str]], ill: int, everyone: int
) -> tuple[list[Cohort], list[tuple[Labels, int, int]]]:
    """Each set of nodes once, under its shortest name; a set that is everybody, or too small, is not tested."""
    by_members: dict[int, list[Labels]] = {}
    too_small: list[tuple[Labels, int, int]] = []
    for labels, members in _candidates(values, pairs):
        count = members.bit_count()
        if count < LEAST_NODES:
            if len(labels) == 1:
                too_small.append((labels, count, (members & ill).bit_count()))
        elif members != everyone:
            by_members.setdefault(members, []).append(labels)
    tables = [_table(members, ill, everyone) for members in by_members]
    chances = [fisher_p(table) for table in tables]
    rates = false_discovery(chances)
    found = []
    for (members, names), table, chance, rate in zip(by_members.items(), tables, chances, rates, strict=True):
        first, *more = sorted(names, key=len)
        same = tuple(labels for labels in more if len(labels) == 1)
        inside = table.sick_in + table.well_in
        found.append(Cohort(first, inside, table.sick_in, odds_ratio(table), chance, rate, members, same))
    return found, sorted(too_small, key=lambda each: (-each[2], each[0]))


def _table(members: int, ill: int, among: int) -> TwoByTwo:
    members, ill = members & among, ill & among
    inside, sick, both = members.bit_count(), ill.bit_count(), (members & ill).bit_count()
    return TwoByTwo(both, inside - both, sick - both, among.bit_count() - inside - sick + both)


def _within(cohort: Cohort, strata: Iterable[int], ill: int) -> Stratified:
    return stratified([_table(cohort.members, ill, stratum) for stratum in strata if stratum])


def _tells_more(cohort: Cohort, singles: Mapping[Labels, Cohort], ill: int, everyone: int) -> bool:
    """A pair counts for itself only where it says more than each of its labels does alone."""
    if len(cohort.labels) == 1:
        return True
    halves = [singles[(label,)] for label in cohort.labels if (label,) in singles]
    strata = ((half.members, everyone & ~half.members) for half in halves)
    return all(_is_left(_within(cohort, each, ill), MOST_Q) for each in strata)


def _is_left(left: Stratified, level: float) -> bool:
    return left.p_value <= level and (left.odds_ratio is None or left.odds_ratio >= LEAST_RATIO)


def _causes(worse: Sequence[Cohort], ill: int, everyone: int, tested: int) -> tuple[Cause, ...]:
    """The most telling first; each next one by what it tells beside those before; then those go that the later ones explain."""
    chosen: list[Cohort] = []
    level = MOST_Q / max(tested, 1)
    while len(chosen) < _MOST_CAUSES:
        strata = _strata(chosen, everyone)
        left = [(one, _within(one, strata, ill)) for one in worse if one not in chosen]
        best = max(
            (each for each in left if _is_left(each[1], level)),
            key=lambda each: (each[1].gain, -len(each[0].labels)),
            default=None,
        )
        if best is None:
            break
        chosen.append(best[0])
    kept = [one for one in chosen if _is_left(_beside(one, chosen, ill, everyone), level)]
    return tuple(Cause(one, _beside(one, kept, ill, everyone)) for one in kept)


def _beside(cohort: Cohort, chosen: Sequence[Cohort], ill: int, everyone: int) -> Stratified:
    return _within(cohort, _strata([one for one in chosen if one is not cohort], everyone), ill)


def _strata(chosen: Sequence[Cohort], everyone: int) -> list[int]:
    """Every combination of being in or out of the chosen cohorts that any node has."""
    strata = [everyone]
    for cohort in chosen:
        parts = ((each & cohort.members, each & ~cohort.members) for each in strata)
        strata = [part for pair in parts for part in pair if part]
    return strata


def _explanations(
    worse: Sequence[Cohort], causes: Sequence[Cause], ill: int, everyone: int
) -> Iterator[ExplainedCohort]:
    named = {cause.cohort.labels for cause in causes}
    for cohort in sorted(worse, key=lambda one: (one.p_value, len(one.labels), one.labels)):
        if cohort.labels in named or not causes:
            continue
        left = [(cause, _within(cohort, _strata([cause.cohort], everyone), ill)) for cause in causes]
        cause, rest = max(left, key=lambda each: (each[1].p_value, each[0].left.gain))
        yield ExplainedCohort(cohort, cause.cohort.labels, rest)
