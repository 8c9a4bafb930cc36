# SPDX-License-Identifier: Apache-2.0
"""From findings, the autopsy and the audit to one ordered plan: origin before mechanism before symptom.

A handful of zombies on a healthy host is ordinary: freeing them is planned only where the population is a finding, where a
looping unit made them, or where somebody asked for exactly these (`every_zombie`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from zombiescope.analysis.autopsy import Autopsy
from zombiescope.analysis.maker import unit_maker
from zombiescope.diagnosis.audit import Audit
from zombiescope.diagnosis.engine import Diagnosis
from zombiescope.diagnosis.finding import Verdict
from zombiescope.facts.levers import Levers
from zombiescope.remedies.catalogue import RECIPES
from zombiescope.remedies.choice import Reckoning, choose
from zombiescope.remedies.plan import Plan, Step
from zombiescope.remedies.situation import Draft, Situation

_PAGE_BYTES = 4096
_POPULATION = "zombie-population"


def propose(
    diagnosis: Diagnosis,
    autopsy: Autopsy | None,
    audit: Audit | None,
    levers: Levers,
    *,
    every_zombie: bool = False,
    makers: tuple[str, ...] = (),
) -> Plan:
    """Any of autopsy and audit may be missing: then nothing is proposed that would have to be guessed. `makers`: known
    to have made zombies, beside the units that loop now."""
    present = frozenset(finding.id for finding in diagnosis.findings if finding.verdict is Verdict.PRESENT)
    makers = tuple(dict.fromkeys((*makers, *_makers(audit))))
    bodies = autopsy.bodies if autopsy else ()
    if not (every_zombie or _POPULATION in present):
        bodies = tuple(body for body in bodies if body.maker in makers)
    situation = Situation(present, choose(bodies), audit, levers)
    steps, left = _numbered(situation)
    cited = tuple(dict.fromkeys(step.finding for step in steps))
    identity = hashlib.sha256("\n".join(f"{step.name} {step.change}" for step in steps).encode()).hexdigest()[:12]
    if autopsy is None or (autopsy.totals.zombies and not autopsy.bodies):
        return Plan(identity, cited, steps, None, None, makers)
    return Plan(identity, cited, steps, len(bodies), left, makers)


def _makers(audit: Audit | None) -> tuple[str, ...]:
    loops = audit.loops if audit else ()
    return tuple(unit_maker(loop.name) for loop in loops if loop.kind in ("unit", "inside"))


def _numbered(situation: Situation) -> tuple[tuple[Step, ...], int]:
    reckoning = Reckoning(situation.choices, dict(situation.levers.segments), _PAGE_BYTES)
    steps: list[Step] = []
    names: set[str] = set()
    for recipe, draft in _drafts(situation):
        if draft.name in names:
            continue
        names.add(draft.name)
        expected = reckoning.pull(draft.pulls) if draft.pulls else None
        steps.append(
            Step(
                len(steps) + 1,
                draft.name,
                recipe,
                draft.title,
                draft.change,
                draft.why,
                draft.finding,
                draft.risk,
                draft.undo,
                draft.check,
                expected,
                draft.needs_consent,
            )
        )
    return tuple(steps), reckoning.left


def _drafts(situation: Situation) -> Iterator[tuple[str, Draft]]:
    for recipe in RECIPES:
        name = recipe.__module__.rpartition(".")[2].replace("_", "-")
        for draft in recipe(situation):
            yield name, draft
