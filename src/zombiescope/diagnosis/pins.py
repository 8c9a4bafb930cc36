# SPDX-License-Identifier: Apache-2.0
"""What the rules about pins have in common: zombies held by certain kinds, whose they are, and what lets them go.

Judged only where there are enough zombies to matter; without an autopsy it stays unknown which kind holds them.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from zombiescope.analysis.maker import maker_said
from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Evidence, Finding, Role, Verdict
from zombiescope.diagnosis.stock import stock_severity
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import share_said
from zombiescope.facts.zombies import Remains

_MOST_MAKERS = 3
_REMEDY = {
    "drop_file": "reclaim-parent",
    "reclaim_parent": "reclaim-parent",
    "flush": "flush",
    "delete_file": "delete-file",
    "remove_segment": "remove-segment",
    "restart_process": "restart-process",
    "swap_in": "swap-in",
    "close_socket": "close-socket",
    "reap_process": "reap-process",
    "unmount": "unmount",
    "wait": "wait",
    "reboot": "reboot",
}


class PinRule(NamedTuple):
    id: str
    title: str
    kinds: frozenset[str]
    words: str
    """What holds them, in a sentence."""
    otherwise: str
    """The remedy where the autopsy names none."""


def judge_pins(case: Case, rule: PinRule) -> Finding:
    population, remains = case.last.scan.population, case.remains
    if isinstance(population, Gap):
        return _finding(rule, Verdict.UNKNOWN, Severity.UNKNOWN, population.reason)
    severity = stock_severity(case, population)
    if severity is Severity.OK:
        return _finding(rule, Verdict.ABSENT, Severity.OK, f"{population.zombies:,} zombies are too few to matter")
    if isinstance(remains, Gap):
        return _finding(
            rule, Verdict.UNKNOWN, Severity.UNKNOWN, f"what holds the zombies is not known: {remains.reason}"
        )
    held = remains.with_pins(rule.kinds)
    if held < case.thresholds.pin_share * remains.zombies or held == 0:
        number = f"{held:,}" if held else "none"
        summary = f"{number} of {remains.zombies:,} zombies {'are' if held > 1 else 'is'} held by {rule.words}"
        return _finding(rule, Verdict.ABSENT, Severity.OK, summary, _evidence(rule, remains))
    return _finding(rule, Verdict.PRESENT, severity, _summary(rule, remains, held), _evidence(rule, remains))._replace(
        remedies=_remedies(rule, remains)
    )


def makers_of(rule: PinRule, remains: Remains) -> list[tuple[str, int]]:
    """Who made the zombies that these kinds hold, most first."""
    found = Counter[str]()
    for each in remains.makers:
        held = min(sum(each.by_pin.get(kind, 0) for kind in rule.kinds), each.zombies)
        if held:
            found[each.maker] = held
    return found.most_common()


def _summary(rule: PinRule, remains: Remains, held: int) -> str:
    makers = makers_of(rule, remains)
    whose = f", most of them made by {maker_said(makers[0][0])}" if makers else ""
    return f"{share_said(held, remains.zombies, 'zombies')} are held by {rule.words}{whose}"


def _remedies(rule: PinRule, remains: Remains) -> tuple[str, ...]:
    """What frees most of them first; of two that free as many, the one that does less harm."""
    freed = Counter[str]()
    for kind in rule.kinds:
        for action, zombies in remains.actions.get(kind, {}).items():
            freed[_REMEDY.get(action, rule.otherwise)] += zombies
    return tuple(name for name, _ in freed.most_common()) or (rule.otherwise,)


def _finding(
    rule: PinRule, verdict: Verdict, severity: Severity, summary: str, evidence: tuple[Evidence, ...] = ()
) -> Finding:
    return Finding(rule.id, verdict, severity, Role.MECHANISM, rule.title, summary, evidence)


def _evidence(rule: PinRule, remains: Remains) -> tuple[Evidence, ...]:
    source = f"autopsy ({remains.tier})"
    found = [
        Evidence(f"pinned.{kind}", remains.by_pin[kind], "zombies", source, remains.at)
        for kind in sorted(rule.kinds)
        if kind in remains.by_pin
    ]
    for maker, held in makers_of(rule, remains)[:_MOST_MAKERS]:
        found.append(Evidence(f"maker[{maker}]", held, "zombies", source, remains.at))
    found += [
        Evidence(f"example.{example.kind}", example.name, "", source, remains.at)
        for example in remains.examples
        if example.kind in rule.kinds
    ]
    return tuple(found)
