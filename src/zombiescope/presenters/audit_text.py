# SPDX-License-Identifier: Apache-2.0
"""The audit for a person: the findings first, then the units that matter, then what could not be known."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from zombiescope.diagnosis.audit import Audit, Subject, UnitAudit
from zombiescope.diagnosis.audit_changes import AuditChanges, UnitChange
from zombiescope.diagnosis.finding import Finding, Verdict
from zombiescope.diagnosis.need import Need
from zombiescope.diagnosis.workload_audit import CrossCheck, WorkloadAudit
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.facts.units import Schedule
from zombiescope.presenters.document import one_per_field
from zombiescope.presenters.scan_text import STYLES, gap_lines

_GAPS_SHOWN = 8
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
    parts: list[RenderableType] = [_headline(audit, source)]
    for finding in findings:
        line = Text(f"{finding.verdict:<8}", style=STYLES[finding.severity])
        line.append(finding.id, style="bold").append(f": {finding.summary}" if finding.summary else "", style="")
        parts.append(line)
    shown_units = [unit for unit in (audit.units if every else audit.starting) if every or _matters(unit)]
    if shown_units:
        parts += [Text(), _table(shown_units)]
    quiet = len(audit.starting) - sum(_matters(unit) for unit in audit.starting)
    if quiet and not every:
        parts.append(Text(f"{quiet} more services are needed and cannot loop (--all lists every unit)", style="dim"))
    parts += _workloads(audit, every=every)
    unknown = one_per_field(gaps)
    parts += gap_lines(unknown[:_GAPS_SHOWN])
    if len(unknown) > _GAPS_SHOWN:
        parts.append(Text(f"         and {len(unknown) - _GAPS_SHOWN} more (--json lists all)", style="dim"))
    if any(finding.verdict is Verdict.PRESENT for finding in findings):
        parts += [
            Text(),
            Text(
                "next     zombiescope export policy, or a preset file that disables the unit in the image", style="dim"
            ),
        ]
    return parts


def render_changes_text(found: AuditChanges) -> list[RenderableType]:
    """What changed since the accepted audit, the worse first."""
    since = _clean(found.accepted.taken_at)
    if not found.changes:
        return [Text(), Text(f"against  the audit of {since}: no service that starts has changed")]
    head = f"against  the audit of {since}: {len(found.changes)} changes, {len(found.worse)} for the worse"
    return [Text(), Text(head, style="bold"), *(_change(one) for one in found.changes)]


def _change(one: UnitChange) -> Text:
    style = "yellow" if one.is_worse else ""
    if one.kind == "changed":
        told = f"{_FIELDS.get(one.field, one.field)}: {_word(one.before)}, now {_word(one.after)}"
    else:
        told = f"starts now ({_word(one.after)})" if one.kind == "added" else "no longer starts"
    return Text(f"{'worse' if one.is_worse else '':<9}{_clean(one.unit)}  {told}", style=style)


def _word(value: str | bool | None) -> str:
    if isinstance(value, str):
        return _clean(value)
    return "not known" if value is None else ("yes" if value else "no")


def _clean(text: str) -> str:
    """From a file that somebody gave us."""
    return text if text.isprintable() else shown(text.encode("utf-8", "surrogateescape"))


def _headline(audit: Audit, source: str) -> Text:
    needs = [unit.need for unit in audit.starting]
    counts = ", ".join(f"{needs.count(need)} {need}" for need in Need)
    roles = f"; roles: {', '.join(audit.roles)}" if audit.roles else ""
    if audit.subject is Subject.MANIFESTS:
        unneeded, unsure = len(audit.unneeded_workloads), len(audit.unsure_workloads)
        told = f"{len(audit.workloads)} workloads ({unneeded} unneeded, {unsure} could not be judged)"
        return Text(f"{source}: {told}", style="bold")
    return Text(f"{source}: {len(audit.starting)} of {len(audit.units)} services start ({counts}){roles}", style="bold")


def _workloads(audit: Audit, *, every: bool) -> list[RenderableType]:
    """Beside systemd: what starts for ever and leaves cgroups, what nothing needs; then what runs undeclared."""
    rows = [one for one in audit.workloads if every or (one.starts and _workload_matters(one))]
    parts: list[RenderableType] = []
    if rows:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for name in ("beside systemd", "starts for ever", "cgroup per life", "needed", "why"):
            table.add_column(name, overflow="fold")
        for one in sorted(rows, key=lambda one: (not one.is_risk, one.need is Need.NEEDED, one.name)):
            style = "red" if one.is_risk else ("yellow" if one.need is Need.UNNEEDED else "")
            for_ever = _YES_NO[one.lives.for_ever] + (f", {one.lives.per_day:,.4g} a day" if one.lives.per_day else "")
            why = Text(f"{one.lives.why}; {one.why}")
            table.add_row(
                Text(one.name, style=style),
                for_ever,
                _YES_NO[one.lives.leaves_cgroups],
                Text(one.need, style=style),
                why,
            )
        parts += [Text(), table]
    return [*parts, *_running(audit.cross_check)]


_YES_NO = {True: "yes", False: "no", None: "?"}


def _workload_matters(one: WorkloadAudit) -> bool:
    return one.may_loop or one.lives.for_ever is None or one.need is Need.UNNEEDED


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
    return [Text(f"running  {line}", style="dim") for line in told]


def _matters(unit: UnitAudit) -> bool:
    return unit.need is not Need.NEEDED or unit.may_loop


def _table(units: list[UnitAudit]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for name in ("unit", "enabled", "loops for ever", "needed", "why"):
        table.add_column(name, overflow="fold")
    order = {Need.UNNEEDED: 0, Need.UNKNOWN: 1, Need.NEEDED: 2}
    for unit in sorted(units, key=lambda unit: (not unit.is_risk, order[unit.need], unit.name)):
        style = "red" if unit.is_risk else ("yellow" if unit.need is Need.UNNEEDED else "")
        why = f"{unit.loop_why}; {unit.why}" if unit.may_loop else unit.why
        table.add_row(
            Text(shown(unit.name.encode()), style=style),
            unit.enabled,
            _loops(unit),
            Text(unit.need, style=style),
            Text(why),
        )
    return table


def _loops(unit: UnitAudit) -> str:
    if unit.policy.can_loop:
        rate = unit.policy.restarts_per_day
        return f"yes, {rate:,.0f} a day" if rate else "yes"
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
