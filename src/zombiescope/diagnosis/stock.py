# SPDX-License-Identifier: Apache-2.0
"""How bad the zombies of a host are, for every rule that asks: by their number, and at any number by the harm that was measured."""

from __future__ import annotations

from collections import Counter

from zombiescope.analysis.maker import maker_said
from zombiescope.analysis.scan import Population
from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Evidence, Finding
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import share_said
from zombiescope.facts.remedies import Remedy, remedy_of
from zombiescope.facts.zombies import Remains

_ORDER = (Severity.OK, Severity.WARNING, Severity.CRITICAL)


def stock_severity(case: Case, population: Population) -> Severity:
    return max(case.thresholds.of_population(population), measured_harm(case, population), key=_ORDER.index)


def measured_harm(case: Case, population: Population) -> Severity:
    """What zombies were seen to cost in this window: reclaim that walks over them, or statistics that take long for them."""
    found = [Severity.OK]
    if not isinstance(case.reclaim, Gap) and case.reclaim.calls:
        from zombiescope.analysis.zombie_cost import Walking  # noqa: PLC0415 (a scan does not pay for it)
        from zombiescope.diagnosis.reclaim_work import harmful_walk  # noqa: PLC0415

        walk = harmful_walk(case, Walking.YES)
        found.append(walk[1] if walk else Severity.OK)
    sweep = case.first.snapshot.sweep
    if not isinstance(sweep, Gap) and population.zombies > population.live:
        from zombiescope.analysis.zombie_cost import derive_sweep_cost  # noqa: PLC0415

        cost = derive_sweep_cost(sweep)
        found.append(case.thresholds.of_sweep(cost.seconds) if cost.is_slow else Severity.OK)
    return max(found, key=_ORDER.index)


_MOST_MAKERS = 3
_AS_TOLD = {Remedy.DROP_FILE: Remedy.RECLAIM_PARENT}
"""Of a kind: which of its levers lets go of cached pages is for the plan."""


def judge_pins(case: Case, rule: Declaration) -> Finding:
    population, remains = case.last.scan.population, case.remains
    if isinstance(population, Gap):
        return rule.unknown(population.reason)
    severity = stock_severity(case, population)
    if severity is Severity.OK:
        return rule.absent(f"{population.zombies:,} zombies are too few to matter")
    if isinstance(remains, Gap):
        return rule.unknown(f"what holds the zombies is not known: {remains.reason}")
    held = remains.with_pins(rule.pins)
    if held < case.thresholds.pin_share * remains.zombies or held == 0:
        number = f"{held:,}" if held else "none"
        summary = f"{number} of {remains.zombies:,} zombies {'are' if held > 1 else 'is'} held by {rule.held_by}"
        return rule.absent(summary, _evidence(rule, remains))
    told = _summary(rule, remains, held)
    return rule.present(severity, told, _evidence(rule, remains), _remedies(rule, remains))


def makers_of(rule: Declaration, remains: Remains) -> list[tuple[str, int]]:
    """Who made the zombies that these kinds hold, most first."""
    found = Counter[str]()
    for each in remains.makers:
        held = min(sum(each.by_pin.get(kind, 0) for kind in rule.pins), each.zombies)
        if held:
            found[each.maker] = held
    return found.most_common()


def _summary(rule: Declaration, remains: Remains, held: int) -> str:
    makers = makers_of(rule, remains)
    whose = f", most of them made by {maker_said(makers[0][0])}" if makers else ""
    return f"{share_said(held, remains.zombies, 'zombies')} are held by {rule.held_by}{whose}"


def _remedies(rule: Declaration, remains: Remains) -> tuple[Remedy, ...]:
    """What frees most of them first; of two that free as many, the one that does less harm."""
    freed = Counter[Remedy]()
    for kind in rule.pins:
        for action, zombies in remains.actions.get(kind, {}).items():
            remedy = remedy_of(action) or rule.remedies[0]
            freed[_AS_TOLD.get(remedy, remedy)] += zombies
    return tuple(name for name, _ in freed.most_common()) or rule.remedies[:1]


def _evidence(rule: Declaration, remains: Remains) -> tuple[Evidence, ...]:
    source = f"autopsy ({remains.tier})"
    found = [
        Evidence(f"pinned.{kind}", remains.by_pin[kind], "zombies", source, remains.at)
        for kind in sorted(rule.pins)
        if kind in remains.by_pin
    ]
    for maker, held in makers_of(rule, remains)[:_MOST_MAKERS]:
        found.append(Evidence(f"maker[{maker}]", held, "zombies", source, remains.at))
    found += [
        Evidence(f"example.{example.kind}", example.name, "", source, remains.at)
        for example in remains.examples
        if example.kind in rule.pins
    ]
    return tuple(found)
