# SPDX-License-Identifier: Apache-2.0
"""`zombiescope.remedies/1` and `zombiescope.services/1`: what could be done and was done, and who can loop or is not needed."""

from __future__ import annotations

from collections.abc import Iterable

from zombiescope.diagnosis.audit import Audit
from zombiescope.diagnosis.finding import Finding
from zombiescope.facts.gap import Gap
from zombiescope.presenters.audit_json import render_audit
from zombiescope.presenters.document import Dated, Json, document
from zombiescope.presenters.now_json import UNDO_WORDS, render_shown_finding, render_unknowns, told_frees
from zombiescope.presenters.plan_json import HERE, Asked, apply_command, plan_gaps, render_plan
from zombiescope.presenters.plan_text import apart_lines, headline
from zombiescope.remedies.plan import Plan, Step

_ONE_BY_ONE = 50
"""Of the files of a step, so many by name: a page does not show 20,000."""


def render_remedies(
    seen: Dated, plan: Plan | Gap, past: Json | None, gaps: Iterable[Gap] = (), asked: Asked = HERE
) -> Json:
    """`past`: what was applied on this host, as `zombiescope.actions/1` has it."""
    body: Json = {
        "at": seen.taken_at,
        "plan": None if isinstance(plan, Gap) else _plan(plan, asked),
        "headline": None if isinstance(plan, Gap) else headline(plan),
        "apart": [] if isinstance(plan, Gap) else apart_lines(plan),
        "commands": {
            "look_first": f"sudo {apply_command((), asked, really=False)}",
            "do_it": None
            if isinstance(plan, Gap) or not plan.own_steps
            else f"sudo {apply_command(plan.consents, asked, really=True)}",
            "verify": "sudo zombiescope verify",
        },
        "elsewhere": asked.is_elsewhere,
        "actions": past["actions"] if past else [],  # `actions_total` is null where it is not known what was done
        "actions_total": past["total"] if past else None,
    }
    told = [plan] if isinstance(plan, Gap) else plan_gaps(plan, "plan.")
    # What a step cannot foresee, the step itself says.
    body["unknowns"] = render_unknowns([*([plan] if isinstance(plan, Gap) else ()), *gaps])
    return document("remedies/1", seen, body, [*told, *gaps])


def _plan(plan: Plan, asked: Asked) -> Json:
    rendered = render_plan(plan)
    for row, step in zip(rendered["steps"], plan.steps, strict=True):
        row |= {
            "command": _command(step, asked),
            "undo_words": UNDO_WORDS[step.undo],
            "frees": told_frees(step),
            "is_for_people": step.is_for_people,
        }
        row["change"] = _shortened(row["change"])
    return rendered


def _command(step: Step, asked: Asked) -> str | None:
    """A dry run that shows this step among the others; what people do is in its own lines."""
    if step.is_for_people:
        return None
    consent = (step.name,) if step.needs_consent else ()
    return f"sudo {apply_command(consent, asked, really=False)}"


def _shortened(change: Json) -> Json:
    """Lists of thousands of names by their first ones, and how many there are."""
    found: Json = {}
    for name, value in change.items():
        if isinstance(value, list) and len(value) > _ONE_BY_ONE:
            found[name], found[f"{name}_in_all"] = value[:_ONE_BY_ONE], len(value)
        else:
            found[name] = value
    return found


_RANK = {
    ("unneeded", True): 0,
    ("unneeded", None): 1,
    ("unknown", True): 2,
    ("unneeded", False): 3,
    ("unknown", None): 4,
}
_UNKNOWN_RANK, _NEEDED_LOOPS_RANK, _FINE_RANK = 5, 6, 7


def render_services(seen: Dated, audit: Audit | Gap, findings: Iterable[Finding], gaps: Iterable[Gap] = ()) -> Json:
    """The bad ones first, then those of which nobody can tell, then the rest."""
    if isinstance(audit, Gap):
        body: Json = {
            "at": seen.taken_at,
            "subject": None,
            "units": [],
            "findings": [],
            "counts": None,
            "unknowns": render_unknowns([audit.about("units"), *gaps]),
        }
        return document("services/1", seen, body, [audit.about("units"), *gaps])
    body = {
        "at": seen.taken_at,
        "subject": audit.subject,
        **render_audit(audit, findings, (), (), every=False),
        "findings": [render_shown_finding(finding) for finding in findings],
    }
    units = body["units"]
    for unit in units:
        unit["rank"] = _rank(unit)
    units.sort(key=lambda unit: (unit["rank"], -(unit["zombies"] or 0), -(unit["restarts"] or 0), unit["name"]))
    body["counts"] = {
        "can_loop": sum(unit["can_loop"] is True or bool(unit["restarts_inside"]) for unit in units),
        "unneeded": sum(unit["verdict"] == "unneeded" for unit in units),
        "unknown": sum(unit["verdict"] == "unknown" or unit["can_loop"] is None for unit in units),
        "fine": sum(unit["rank"] == _FINE_RANK for unit in units),
        "units": len(units),
    }
    more = (
        [Gap("units", audit.cannot_tell, "is this the root of a system that systemd runs?")]
        if audit.cannot_tell
        else []
    )
    if not audit.was_systemd_asked:
        why = "systemd was not asked: what is enabled is known, what loops now is not"
        more.append(Gap("units[].restarts", why, "zombiescope serve, as root on the host"))
    body["unknowns"] = render_unknowns([*more, *gaps])
    return document("services/1", seen, body, [*more, *gaps])


def _rank(unit: Json) -> int:
    loops = True if unit["restarts_inside"] else unit["can_loop"]
    known = _RANK.get((str(unit["verdict"]), loops))
    if known is not None:
        return known
    if unit["verdict"] == "unknown":
        return _UNKNOWN_RANK
    return _NEEDED_LOOPS_RANK if loops else _FINE_RANK
