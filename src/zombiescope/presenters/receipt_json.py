# SPDX-License-Identifier: Apache-2.0
"""`zombiescope.receipt/1` (apply, undo) and `zombiescope.verify/1`: what was done, what came of it, whether it held."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from zombiescope.analysis.comparing import Measure, Row, ShareChange
from zombiescope.diagnosis.outcome import Outcome
from zombiescope.facts.gap import Gap
from zombiescope.facts.reclaim import Vitals
from zombiescope.presenters.document import Dated, Json, document, null_fields, rfc3339
from zombiescope.presenters.plan_json import plan_gaps, render_plan, render_step
from zombiescope.remedies.plan import Plan, Step

_UNTOLD = "it could not be measured on this host"
_REASONS = {
    "steps[].freed.zombies": "this step frees no zombie by itself, was not done, or the zombies could not be counted",
    "steps[].expected": "this step frees no zombie by itself, or is done by hand: nothing is predicted",
    "verify": "the window was left out (--window 0)",
    "action": "a dry run, or no action of ours: nothing was changed",
    "before": "no action of ours: the rows say what was before",
    "after": "no action of ours: the rows say what came after",
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


class Seen(Dated, Protocol):
    """What `verify` saw."""

    @property
    def action(self) -> str | None: ...
    @property
    def outcome(self) -> Outcome: ...
    @property
    def before(self) -> Vitals | None: ...
    @property
    def after(self) -> Vitals | None: ...
    @property
    def rows(self) -> Sequence[Row]: ...
    @property
    def jobs_changed(self) -> ShareChange | None: ...


def render_verify(seen: Seen, gaps: Iterable[Gap] = ()) -> Json:
    return _document("verify/1", seen, verify_body(seen), gaps)


def verify_body(seen: Seen) -> Json:
    return {
        "action": seen.action,
        "verdict": seen.outcome.verdict,
        "why": seen.outcome.why,
        "before": _vitals(seen.before),
        "after": _vitals(seen.after),
        "rows": [_row(row) for row in seen.rows],
        **({"jobs_changed": _change(seen.jobs_changed)} if seen.jobs_changed else {}),
    }


def _row(row: Row) -> Json:
    why = {"why": row.why} if row.why else {}
    sides = {"before": _measure(row.before), "after": _measure(row.after)}
    return {"what": row.what, "unit": row.unit, **sides, "verdict": row.verdict, **why}


def _measure(measure: Measure) -> Json:
    """The range and the count where there are such."""
    told = {"low": measure.low, "high": measure.high, "count": measure.number}
    more = {name: value for name, value in told.items() if value is not None}
    return {"value": measure.value, "seconds": round(measure.seconds, 1), "source": measure.source, **more}


def _change(change: ShareChange) -> Json:
    sides = {"before": change.before, "after": change.after}
    return {
        "at": rfc3339(change.at),
        **{name: {"succeeded": good, "ended": all_} for name, (good, all_) in sides.items()},
    }


def _vitals(vitals: Vitals | None) -> Json | None:
    if vitals is None:
        return None
    plain = vitals._asdict()
    return {**plain, "at": rfc3339(vitals.at), "slope_per_hour": vitals.slope_per_hour}


def _document(schema: str, seen: Dated, body: Json, gaps: Iterable[Gap]) -> Json:
    """Every null has its gap."""
    known = list(gaps)
    told = {gap.fact for gap in known}
    missing = [field for field in null_fields(body) if field not in told]
    return document(schema, seen, body, [*known, *(Gap(field, _REASONS.get(field, _UNTOLD)) for field in missing)])
