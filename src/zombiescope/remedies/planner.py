# SPDX-License-Identifier: Apache-2.0
"""From findings, the autopsy and the audit to one ordered plan: origin before mechanism before symptom.

A handful of zombies on a healthy host is ordinary: freeing them is planned only where the population is a finding, where a
looping unit made them, or where somebody asked for exactly these (`every_zombie`).
"""

import hashlib
from collections import Counter
from collections.abc import Iterator

from zombiescope.analysis.autopsy import Autopsy, Body
from zombiescope.analysis.maker import unit_maker
from zombiescope.diagnosis.audit import Audit
from zombiescope.diagnosis.engine import Diagnosis
from zombiescope.diagnosis.finding import Verdict
from zombiescope.facts.reaping import Levers
from zombiescope.remedies.catalogue import RECIPES
from zombiescope.remedies.choice import AT_REST, Activity, Draft, Reckoning, Situation, choose
from zombiescope.remedies.plan import Expected, Plan, Step


def propose(
    diagnosis: Diagnosis,
    autopsy: Autopsy | None,
    audit: Audit | None,
    levers: Levers,
    *,
    every_zombie: bool = False,
    activity: Activity = AT_REST,
) -> Plan:
    """Any of autopsy and audit may be missing: then nothing is proposed that would have to be guessed."""
    present = frozenset(finding.id for finding in diagnosis.findings if finding.verdict is Verdict.PRESENT)
    growing = tuple(maker for maker, _ in activity.growing)
    looping = tuple(loop.maker for loop in activity.pods.loops) if activity.pods else ()
    makers = tuple(dict.fromkeys((*growing, *activity.makers, *looping, *_makers(audit))))
    bodies = every = autopsy.bodies if autopsy else ()
    if not (every_zombie or "zombie-population" in present):
        bodies = tuple(body for body in bodies if body.maker in makers)
    tally = Counter(body.maker for body in every)
    situation = Situation(present, choose(bodies), audit, levers, activity, tally, _still_written(every, activity))
    if autopsy is not None:
        situation = situation._replace(page_bytes=autopsy.page_bytes)
    steps, left = _numbered(situation)
    cited = tuple(dict.fromkeys(step.finding for step in steps))
    identity = _identity(steps)
    if autopsy is None or (autopsy.totals.zombies and not autopsy.bodies):
        return Plan(identity, cited, steps, None, None, makers)
    return Plan(identity, cited, steps, len(bodies), left, makers)


def _still_written(bodies: tuple[Body, ...], activity: Activity) -> frozenset[bytes]:
    """What a process has open or mapped, and what holds zombies born since we look; where births are not known, all of whoever
    makes more."""
    since, growing = activity.since, {maker for maker, _ in activity.growing}
    found = {pin.path for body in bodies for pin in body.pins if pin.path is not None and pin.holder is not None}
    for body in bodies if since is not None else ():
        born = body.zombie.born_at
        assert since is not None
        if born >= since if born is not None else body.maker in growing:
            found |= {pin.path for pin in body.pins if pin.path is not None}
    return frozenset(found)


def _makers(audit: Audit | None) -> tuple[str, ...]:
    loops = audit.loops if audit else ()
    named = (unit_maker(loop.name) for loop in loops if loop.kind in ("unit", "inside"))
    return (*named, *(loop.name for loop in loops if loop.kind == "pod"))


def _numbered(situation: Situation) -> tuple[tuple[Step, ...], int]:
    reckoning = Reckoning(situation.choices, situation.levers, situation.page_bytes)
    steps: list[Step] = []
    for recipe, draft in _drafts(situation):
        if any(step.name == draft.name for step in steps):
            continue
        expected = _expected(reckoning, draft) if draft.pulls else None
        if draft.pods:
            expected = reckoning.goes_with(draft.pods)
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
                draft.instead_of,
            )
        )
    return tuple(steps), reckoning.left


def _expected(reckoning: Reckoning, draft: Draft) -> Expected:
    """A step that stands in for another leaves the zombies to be counted there, too; what it rewrites stays in memory."""
    if not draft.instead_of:
        return reckoning.pull(draft.pulls)
    found = reckoning.would_free(draft.pulls)
    return found if found.bytes_freed is None else found._replace(bytes_freed=0)


def _drafts(situation: Situation) -> Iterator[tuple[str, Draft]]:
    """In the order of the catalogue, but first what is against those who leave zombies: who only loops louder can wait."""
    found = [(name, draft) for name, recipe in RECIPES.items() for draft in recipe.propose(situation)]
    growing = [maker for maker, _ in situation.activity.growing]
    guilty = [*growing, *(maker for maker, _ in Counter(situation.left).most_common() if maker not in growing)]

    def order(each: tuple[str, Draft]) -> tuple[int, int]:
        maker = each[1].maker
        return (0, guilty.index(maker)) if maker in guilty else (1 if maker else 2, 0)

    yield from sorted(found, key=order)


def freeing_alone(plan: Plan) -> Plan:
    """Only the steps that free what the plan is about: not those against whoever makes more of them."""
    kept = [step for step in plan.steps if _frees(step) or step.recipe in ("end-holders", "in-use", "drain-and-reboot")]
    steps = tuple(step._replace(n=number) for number, step in enumerate(kept, 1))
    cited = tuple(dict.fromkeys(step.finding for step in steps))
    return plan._replace(id=_identity(steps), findings=cited, steps=steps)


def _frees(step: Step) -> bool:
    return step.expected is not None and (step.expected.zombies_freed is None or step.expected.up_to > 0)


def _identity(steps: tuple[Step, ...]) -> str:
    return hashlib.sha256("\n".join(f"{step.name} {step.change}" for step in steps).encode()).hexdigest()[:12]
