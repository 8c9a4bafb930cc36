# SPDX-License-Identifier: Apache-2.0
"""`zombiescope.receipt/1` (apply, undo) and `zombiescope.verify/1`: what was done, what came of it, whether it held."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from zombiescope.diagnosis.outcome import Outcome
from zombiescope.facts.gap import Gap
from zombiescope.facts.pressure import Vitals
from zombiescope.presenters.document import Dated, Json, document, null_fields, rfc3339
from zombiescope.presenters.plan_json import plan_gaps, render_plan, render_step
from zombiescope.remedies.plan import Plan, Step

_UNTOLD = "it could not be measured on this host"
_REASONS = {
    "steps[].freed.zombies": "this step frees no zombie by itself, was not done, or the zombies could not be counted",
    "steps[].expected": "this step frees no zombie by itself, or is done by hand: nothing is predicted",
    "verify": "the window was left out (--window 0)",
    "action": "a dry run: nothing was changed",
}


class Done(Protocol):
    """The receipt of one step."""

    @property
    def step(self) -> Step: ...
    @property
    def status(self) -> str: ...
    @property
    def zombies_freed(self) -> int | None: ...
    @property
    def note(self) -> str: ...


class Kept(Protocol):
    """A deleted file and its copy."""

    @property
    def path(self) -> str: ...
    @property
    def copy(self) -> str: ...


def render_dry_run(plan: Plan, seen: Dated, gaps: Iterable[Gap]) -> Json:
    body = {"verb": "apply", "action": None, "dry_run": True, **render_plan(plan)}
    return _document("receipt/1", seen, body, [*gaps, *plan_gaps(plan)])


class Applied(Protocol):
    @property
    def action(self) -> str: ...
    @property
    def receipts(self) -> Sequence[Done]: ...
    @property
    def kept(self) -> Sequence[Kept]: ...


def render_receipt(applied: Applied, plan: Plan, seen: Dated, gaps: Iterable[Gap], verified: Json | None) -> Json:
    body: Json = {
        "verb": "apply",
        "action": applied.action,
        "dry_run": False,
        "plan": plan.id,
        "steps": [_step(step) for step in applied.receipts],
        "verify": verified,
        "kept": [{"file": each.path, "copy": each.copy} for each in applied.kept],
    }
    return _document("receipt/1", seen, body, [*gaps, *plan_gaps(plan)])


def _step(done: Done) -> Json:
    return {
        **render_step(done.step),
        "status": done.status,
        "freed": {"zombies": done.zombies_freed},
        "note": done.note,
    }


def render_undo(
    action: str,
    taken: Sequence[Mapping[str, Any]],
    todo: Sequence[str],
    kept: Sequence[Kept],
    seen: Dated,
    *,
    dry_run: bool,
) -> Json:
    body = {
        "verb": "undo",
        "action": action,
        "dry_run": dry_run,
        "changes": list(taken),
        "todo": list(todo),
        "kept": [{"file": each.path, "copy": each.copy} for each in kept],
    }
    return _document("receipt/1", seen, body, [])


def render_verify(action: str, outcome: Outcome, before: Vitals, after: Vitals, seen: Dated) -> Json:
    return _document("verify/1", seen, verify_body(action, outcome, before, after), [])


def verify_body(action: str, outcome: Outcome, before: Vitals, after: Vitals) -> Json:
    return {
        "action": action,
        "verdict": outcome.verdict,
        "why": outcome.why,
        "before": _vitals(before),
        "after": _vitals(after),
    }


def _vitals(vitals: Vitals) -> Json:
    plain = vitals._asdict()
    return {**plain, "at": rfc3339(vitals.at), "slope_per_hour": vitals.slope_per_hour}


def _document(schema: str, seen: Dated, body: Json, gaps: Iterable[Gap]) -> Json:
    """Every null has its gap."""
    known = list(gaps)
    told = {gap.fact for gap in known}
    missing = [field for field in null_fields(body) if field not in told]
    return document(schema, seen, body, [*known, *(Gap(field, _REASONS.get(field, _UNTOLD)) for field in missing)])
