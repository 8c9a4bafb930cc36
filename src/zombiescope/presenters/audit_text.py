# SPDX-License-Identifier: Apache-2.0
"""The audit for a person: the findings first, then the units that matter, then what could not be known."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from rich.console import RenderableType
from rich.text import Text

from zombiescope.diagnosis.audit import Audit, AuditSubject, UnitAudit
from zombiescope.diagnosis.audit_findings import AuditChanges, UnitChange
from zombiescope.diagnosis.finding import Finding, Verdict
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.diagnosis.workload_audit import CrossCheck, Need, WorkloadAudit
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import counted, shown
from zombiescope.facts.units import Schedule
from zombiescope.presenters.document import one_per_field
from zombiescope.presenters.figures import clean
from zombiescope.presenters.layout import Block, Cell, Column, Command, Fitting, Prose, unknown_block
from zombiescope.presenters.scan_text import STYLES

_NAMED = 5
_FIELDS = {
    "verdict": "needed",
    "can_loop": "can loop for ever",
    "restart_policy": "Restart=",
    "restarts_inside": "restarts something inside itself",
    "makes_cgroups": "makes cgroups",
}


def render_audit_text(
    audit: Audit, findings: Iterable[Finding], source: str, gaps: Iterable[Gap], *, every: bool
) -> list[RenderableType]:
    listed = list(findings)
    present = [finding for finding in listed if finding.verdict is Verdict.PRESENT]
    parts: list[RenderableType] = [_answer(audit, present, source), _counts(audit)]
    blocks = [Block("found", [_told(finding) for finding in present])] if present else []
    fine = [finding.title for finding in listed if finding.verdict is Verdict.ABSENT]
    blocks += [Block("not found", [f"{title[0].lower()}{title[1:]}" for title in fine])] if fine else []
    parts += [part for block in blocks for part in (Text(), block)]
    shown_units = [unit for unit in (audit.units if every else audit.starting) if every or _matters(unit)]
    if shown_units:
        parts += [Text(), _table(shown_units)]
    quiet = len(audit.starting) - sum(_matters(unit) for unit in audit.starting)
    if quiet and not every:
        parts.append(
            Text(f"{counted(quiet, 'more service')}: needed, and cannot loop (--all lists every unit)", style="dim")
        )
    parts += _workloads(audit, every=every)
    unjudged = [
        f"{one.title[0].lower()}{one.title[1:]}: {one.summary}" for one in listed if one.verdict is Verdict.UNKNOWN
    ]
    return [*parts, *unknown_block(one_per_field(gaps), unjudged)]


def audit_next(findings: Iterable[Finding], where: str) -> list[RenderableType]:
    """What to type next; `where`: the options that name the same machine or image."""
    if any(finding.verdict is Verdict.PRESENT for finding in findings):
        return [Text(), Command("to write down what is needed and who owns it", f"zombiescope export policy{where}")]
    return [Text(), Command("to fail a pipeline on it", f"zombiescope check{where}")]


def _told(finding: Finding) -> Text:
    text = Text(f"{finding.title} ", style="bold").append(f"({finding.severity})", style=STYLES[finding.severity])
    return text.append(f": {finding.summary}" if finding.summary else "", style="")


def _answer(audit: Audit, present: list[Finding], source: str) -> Prose:
    if present:
        first = present[0]
        more = f", and {len(present) - 1} more" if len(present) > 1 else ""
        return Prose(
            f"{source}: {first.title[0].lower()}{first.title[1:]}: {first.summary}{more}", STYLES[first.severity]
        )
    if audit.cannot_tell and audit.subject != "host":
        return Prose(f"{source}: nobody can tell what starts here", STYLES[Severity.UNKNOWN])
    if audit.subject is AuditSubject.MANIFESTS:
        return _manifests_answer(audit, source)
    unjudged = sum(unit.need is Need.UNKNOWN for unit in audit.starting)
    if unjudged:
        told = f"no unneeded service was found, but {unjudged:,} of {counted(len(audit.starting), 'service')} could not be judged"
        return Prose(f"{source}: {told}", STYLES[Severity.WARNING])
    return Prose(
        f"{source}: nothing to fix in {counted(len(audit.starting), 'service')} that start", STYLES[Severity.OK]
    )


def _manifests_answer(audit: Audit, source: str) -> Prose:
    unsure, count = len(audit.unsure_workloads), counted(len(audit.workloads), "workload")
    if unsure:
        return Prose(f"{source}: {unsure:,} of {count} could not be judged", STYLES[Severity.WARNING])
    if audit.unread_workloads:
        told = f"nothing to fix in {count}, but not all could be read: {audit.unread_workloads[0].reason}"
        return Prose(f"{source}: {told}", STYLES[Severity.WARNING])
    return Prose(f"{source}: nothing to fix in {count}", STYLES[Severity.OK])


def render_changes_text(found: AuditChanges) -> list[RenderableType]:
    """What changed since the accepted audit, the worse first."""
    since = clean(found.accepted.taken_at)
    if not found.changes:
        return [Text(), Block("against", [f"the audit of {since}: no service that starts has changed"])]
    changes = f"{len(found.changes)} change{'s' if len(found.changes) != 1 else ''}"
    head = Text(f"the audit of {since}: {changes}, {len(found.worse)} for the worse", style="bold")
    return [Text(), Block("against", [head, *(_change(one) for one in found.changes)])]


def _change(one: UnitChange) -> Text:
    style = "yellow" if one.is_worse else ""
    if one.kind == "changed":
        told = f"{_FIELDS.get(one.field, one.field)}: {_word(one.before)}, now {_word(one.after)}"
    else:
        told = f"starts now ({_word(one.after)})" if one.kind == "added" else "no longer starts"
    return Text(f"{'worse: ' if one.is_worse else ''}{clean(one.unit)}  {told}", style=style)


def _word(value: str | bool | None) -> str:
    if isinstance(value, str):
        return clean(value)
    return "not known" if value is None else ("yes" if value else "no")


def _counts(audit: Audit) -> Prose:
    needs = [unit.need for unit in audit.starting]
    counts = ", ".join(f"{needs.count(need)} {need}" for need in Need)
    roles = f"; roles: {', '.join(audit.roles)}" if audit.roles else ""
    if audit.subject is AuditSubject.MANIFESTS:
        unneeded, unsure = len(audit.unneeded_workloads), len(audit.unsure_workloads)
        return Prose(f"{len(audit.workloads)} workloads ({unneeded} unneeded, {unsure} could not be judged)", "dim")
    return Prose(f"{len(audit.starting)} of {counted(len(audit.units), 'service')} start ({counts}){roles}", "dim")


def _workloads(audit: Audit, *, every: bool) -> list[RenderableType]:
    """Beside systemd: what starts for ever and leaves cgroups, what nothing needs; then what runs undeclared."""
    rows = [
        one
        for one in audit.workloads
        if every or (one.starts and (one.may_loop or one.lives.for_ever is None or one.need is Need.UNNEEDED))
    ]
    parts: list[RenderableType] = []
    if rows:
        columns = [
            Column("beside systemd", is_number=False, least_width=16),
            Column("starts for ever", is_number=False, least_width=8),
            Column("cgroup per life", is_number=False, least_width=6),
            Column("needed", is_number=False),
            Column("why", is_number=False, least_width=20),
        ]
        rows.sort(key=lambda one: (not one.is_risk, one.need is Need.NEEDED, one.name))
        parts += [Text(), Fitting(columns, [_workload(one) for one in rows])]
    return [*parts, *_running(audit.cross_check)]


def _workload(one: WorkloadAudit) -> list[Cell]:
    style = "red" if one.is_risk else ("yellow" if one.need is Need.UNNEEDED else "")
    per_day = f", {one.lives.per_day:,.4g} per day" if one.lives.per_day else ""
    for_ever = f"{_YES_NO[one.lives.for_ever]}{per_day}"
    why = f"{one.lives.why}; {one.why}"
    return [Text(one.name, style=style), for_ever, _YES_NO[one.lives.leaves_cgroups], Text(one.need, style=style), why]


_YES_NO = {True: "yes", False: "no", None: "?"}


def _running(found: CrossCheck | None) -> list[RenderableType]:
    if found is None:
        return []
    told = []
    if found.undeclared_containers:
        first = found.undeclared_containers[0]
        told.append(f"{len(found.undeclared_containers)} containers run that nothing here declares, such as {first}")
    if found.outside:
        names = ", ".join(sorted(found.outside, key=lambda name: (-(found.outside or {})[name], name))[:_NAMED])
        told.append(f"{len(found.outside)} programs run in no unit, container or session: {names}")
    if found.not_running:
        told.append(f"{len(found.not_running)} declared containers do not run: {', '.join(found.not_running[:_NAMED])}")
    return [Text(), Block("running", told)] if told else []


def _matters(unit: UnitAudit) -> bool:
    return unit.need is not Need.NEEDED or unit.may_loop


def _table(units: list[UnitAudit]) -> Fitting:
    widths = (("unit", 12), ("enabled", 8), ("loops for ever", 8), ("needed", None), ("why", 24))
    columns = [Column(name, is_number=False, least_width=width) for name, width in widths]
    rows: list[list[Cell]] = []
    order = {Need.UNNEEDED: 0, Need.UNKNOWN: 1, Need.NEEDED: 2}
    for unit in sorted(units, key=lambda unit: (not unit.is_risk, order[unit.need], unit.name)):
        style = "red" if unit.is_risk else ("yellow" if unit.need is Need.UNNEEDED else "")
        why = f"{unit.loop_why}; {unit.why}" if unit.may_loop else unit.why
        name = Text(shown(unit.name.encode()), style=style)
        rows.append([name, unit.enabled, _loops(unit), Text(unit.need, style=style), why])
    return Fitting(columns, rows)


def _loops(unit: UnitAudit) -> str:
    if unit.policy.can_loop:
        rate = unit.policy.restarts_per_day
        return f"yes, {rate:,.0f} per day" if rate else "yes"
    if unit.upheld_by:
        return "yes, upheld"
    if unit.restarts_inside:
        return "inside itself"
    return "?" if unit.policy.can_loop is None else "no"


_QUARTER = timedelta(days=91)
_TITLES = {
    Need.UNNEEDED: "To be removed: enabled, and nothing needs it",
    Need.UNKNOWN: "To be decided: nobody could say whether it is needed",
    Need.NEEDED: "Kept",
}


def render_policy(audit: Audit, schedules: Iterable[Schedule], source: str, at: float) -> str:
    made = datetime.fromtimestamp(at, UTC)
    lines = [
        f"# Agents on {_cell(source)}",
        "",
        f"Audited {made:%Y-%m-%d} by `zombiescope export policy`.",
        f"Next audit: **{made + _QUARTER:%Y-%m-%d}** (quarterly), and whenever the image changes.",
        "",
        "Rules: every service that starts by itself has an owner and a reason.",
        "One that has neither by the next audit is disabled in the image.",
        "One that may be restarted for ever gets a start limit (`StartLimitIntervalSec=300`, `StartLimitBurst=5`).",
    ]
    for need, title in _TITLES.items():
        units = [unit for unit in audit.starting if unit.need is need]
        lines += ["", f"## {title} ({len(units)})", ""]
        lines += [*_policy_table(units)] if units else ["None."]
    listed = list(schedules)
    lines += ["", f"## Started by cron or SysV scripts ({len(listed)})", ""]
    lines += [f"- `{_cell(one.path)}` {_cell(one.when)}".rstrip() for one in listed] or ["None."]
    return "\n".join(lines)


def _policy_table(units: list[UnitAudit]) -> Iterable[str]:
    yield "| service | enabled | loops for ever | makes cgroups | why | owner |"
    yield "|---|---|---|---|---|---|"
    for unit in units:
        loops = "yes" if unit.may_loop else ("?" if unit.policy.can_loop is None else "no")
        makes = {True: "yes", False: "no", None: "?"}[unit.makes_cgroups]
        yield f"| `{_cell(shown(unit.name.encode()))}` | {unit.enabled} | {loops} | {makes} | {_cell(unit.why)} | |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("`", "'").replace("<", "&lt;")
