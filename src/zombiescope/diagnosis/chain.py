# SPDX-License-Identifier: Apache-2.0
"""Links what was found: symptom to mechanism to origin. A cause is named only where it is present and the facts fit it.

Each finding declares its candidates in the order in which they are believed; what holds most zombies comes first.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.catalogue import FINDINGS
from zombiescope.diagnosis.finding import Declaration, Finding, Role, Verdict
from zombiescope.diagnosis.growing import growing_of, makers_that_grow
from zombiescope.diagnosis.loops import Suspect, has_lived_them, suspects_of
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap
from zombiescope.facts.zombies import MakerRemains

PIN_RULES: Mapping[str, Declaration] = {name: each for name, each in FINDINGS.items() if each.pins}
LOOP_KINDS: Mapping[str, frozenset[str]] = {name: each.loops for name, each in FINDINGS.items() if each.loops}
_ROLES = (Role.SYMPTOM, Role.MECHANISM, Role.ORIGIN)
_SEVERITIES = (Severity.CRITICAL, Severity.WARNING, Severity.UNKNOWN, Severity.OK)


def link(case: Case, findings: tuple[Finding, ...]) -> tuple[Finding, ...]:
    present = {finding.id: finding for finding in findings if finding.verdict is Verdict.PRESENT}
    return tuple(
        finding._replace(explained_by=_causes(case, finding.id, present)) if finding.id in present else finding
        for finding in findings
    )


def chains(findings: tuple[Finding, ...]) -> tuple[tuple[str, ...], ...]:
    """From each thing that nothing else comes from, down to its root: the worst first, what hurts before what causes it."""
    present = {finding.id: finding for finding in findings if finding.verdict is Verdict.PRESENT}
    effects = {cause for finding in present.values() for cause in finding.explained_by}
    heads = [finding for finding in present.values() if finding.id not in effects]
    found = [_down(head.id, present) for head in heads]
    return tuple(sorted(found, key=lambda chain: (is_riddle(present[chain[-1]]), *_rank(chain, present))))


def _rank(chain: Sequence[str], present: Mapping[str, Finding]) -> tuple[int, float]:
    head, root = present[chain[0]], chain[-1]
    role = float(_ROLES.index(head.role))
    if FINDINGS[root].takes_cpu and head.role is Role.ORIGIN:
        role = _ROLES.index(Role.MECHANISM) + 0.3
    elif head.id == "zombie-growth" or (head.id == "zombie-population" and (root in PIN_RULES or root == head.id)):
        role += 0.6  # growth is in the first line in any case
    return _SEVERITIES.index(head.severity), role


def is_riddle(root: Finding) -> bool:
    """A symptom that nothing explains is told last: it names no origin."""
    return FINDINGS[root.id].is_riddle


def _down(head: str, present: Mapping[str, Finding]) -> tuple[str, ...]:
    path = [head]
    while causes := [cause for cause in present[path[-1]].explained_by if cause not in path]:
        path.append(causes[0])
    return tuple(path)


def leaking(case: Case, finding: str) -> list[Suspect]:
    """Of the loops behind a finding, those that left something, or must have; most first."""
    suspects = suspects_of(case, LOOP_KINDS[finding])
    return [each for each in suspects if each.is_leaking(case.thresholds) or each.grown or has_lived_them(case, each)]


def rivals(case: Case, finding: str) -> list[Suspect]:
    """Without a walk: several loops that each were restarted as often as there are zombies, and nothing tells which left them."""
    found = leaking(case, finding) if isinstance(case.remains, Gap) else []
    return found if len(found) > 1 and not any(each.grown for each in found) else []


def _causes(case: Case, effect: str, present: Mapping[str, Finding]) -> tuple[str, ...]:
    found = [
        cause for cause in FINDINGS[effect].explained_by if cause in present and _fits(case, effect, cause, present)
    ]
    if effect == "zombie-population" and not isinstance(case.remains, Gap):
        remains = case.remains
        pins = [cause for cause in found if cause in PIN_RULES]
        found = sorted(pins, key=lambda cause: -remains.with_pins(PIN_RULES[cause].pins)) or found
    return tuple(found)


def _fits(case: Case, effect: str, cause: str, present: Mapping[str, Finding]) -> bool:
    if cause in LOOP_KINDS:
        return _loop_fits(case, effect, cause)
    if cause == "zombie-growth":
        return _growth_fits(case, effect)
    if cause == "cpu-steal":
        return _is_stolen(case, present)
    if cause == "reclaim-pressure" and effect == "saturated-core":
        return not _is_stolen_stretch(case)
    if effect == "saturated-core":
        return not _is_stolen_stretch(case)
    return True


def _loop_fits(case: Case, effect: str, cause: str) -> bool:
    """It left zombies of this kind, a fair share of all; who merely loops beside them is innocent."""
    if isinstance(case.remains, Gap):
        return bool(leaking(case, cause))
    for suspect in leaking(case, cause):
        if effect == "zombie-growth" and suspect.grown:
            return True
        if suspect.share < case.thresholds.blame_share or suspect.left is None:
            continue
        rule = PIN_RULES.get(effect)
        if rule is None or any(suspect.left.by_pin.get(kind, 0) for kind in rule.pins):
            return True
    return False


def _growth_fits(case: Case, effect: str) -> bool:
    """Who makes more of them now left a fair share of those that are there, held as these are."""
    now = growing_of(case)
    if isinstance(case.remains, Gap):
        return now is not None and bool(now.makers)
    rule = PIN_RULES.get(effect)
    left = [case.remains.of(maker) for maker in (makers_that_grow(case))]
    held = case.remains.with_pins(rule.pins) if rule else case.remains.zombies
    mine = [_held(each, rule) for each in left if each is not None]
    return any(count and count >= case.thresholds.blame_share * held for count in mine)


def _held(left: MakerRemains, rule: Declaration | None) -> int:
    return left.zombies if rule is None else sum(left.by_pin.get(kind, 0) for kind in rule.pins)


def _is_stolen_stretch(case: Case) -> bool:
    longest = None if isinstance(case.cores, Gap) else case.cores.longest
    return longest is not None and longest.mode == "steal"


def _is_stolen(case: Case, present: Mapping[str, Finding]) -> bool:
    """Stolen time explains what waits only where no core was held by the kernel itself."""
    return "saturated-core" not in present or _is_stolen_stretch(case)
