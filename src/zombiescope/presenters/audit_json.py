# SPDX-License-Identifier: Apache-2.0
"""`zombiescope.audit/1`: units with their verdicts and evidence, schedules, findings."""

from collections.abc import Iterable

from zombiescope.diagnosis.audit import Audit, UnitAudit
from zombiescope.diagnosis.audit_findings import AuditChanges
from zombiescope.diagnosis.finding import Finding
from zombiescope.diagnosis.workload_audit import CrossCheck, WorkloadAudit
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.facts.units import RestartingContainer, Schedule
from zombiescope.presenters.doctor_report import render_finding
from zombiescope.presenters.document import Json


def render_audit(
    audit: Audit,
    findings: Iterable[Finding],
    schedules: Iterable[Schedule],
    containers: Iterable[RestartingContainer],
    *,
    every: bool,
) -> Json:
    """The body of the document. Units that nothing starts are left out unless `every`."""
    units = audit.units if every else audit.starting
    return {
        "roles": list(audit.roles),
        "units": [_unit(unit) for unit in units],
        "units_not_started": len(audit.units) - len(audit.starting),
        "schedules": [
            {"kind": one.kind, "name": one.name, "path": one.path, "when": one.when, "command": one.command}
            for one in schedules
        ],
        "containers": [
            {"runtime": one.runtime, "name": one.name, "restarts": one.restarts, "source": one.path}
            for one in containers
        ],
        "workloads": [_workload(one) for one in audit.workloads if every or one.starts],
        "running": _running(audit.cross_check),
        "findings": [render_finding(finding) for finding in findings],
    }


def _workload(one: WorkloadAudit) -> Json:
    workload = one.workload
    return {
        "name": one.name,
        "starter": workload.starter,
        "path": workload.path,
        "policy": workload.policy,
        "image": workload.image,
        "command": workload.command,
        "is_sidecar": workload.is_sidecar,
        "starts": one.starts,
        "is_running": one.is_running,
        "for_ever": one.lives.for_ever,
        "lives_per_day": one.lives.per_day,
        "leaves_cgroups": one.lives.leaves_cgroups,
        "lives_why": one.lives.why,
        "verdict": one.need,
        "why": one.why,
    }


def _running(found: CrossCheck | None) -> Json | None:
    """What runs against what is declared; null offline."""
    if found is None:
        return None
    return {
        "undeclared_containers": list(found.undeclared_containers),
        "outside": [{"program": name, "processes": count} for name, count in sorted((found.outside or {}).items())],
        "not_running": list(found.not_running),
    }


_NOT_KNOWN = {
    "for_ever": "the restart policy or the schedule could not be told",
    "lives_per_day": "it is not started again by itself, its starter does not wait, or its schedule could not be told",
    "leaves_cgroups": "could not be told",
    "is_running": "it is no container with an id, or nothing runs here",
}


def workload_gaps(audit: Audit) -> list[Gap]:
    """One for each field that is null somewhere."""
    rows = [_workload(one) for one in audit.workloads]
    gaps = [
        Gap(f"workloads[].{name}", why) for name, why in _NOT_KNOWN.items() if any(row[name] is None for row in rows)
    ]
    return gaps if audit.cross_check else [*gaps, Gap("running", "nothing runs in a folder or an image")]


def render_changes(found: AuditChanges) -> Json:
    """`against`, where an earlier audit was given."""
    return {
        "source": found.accepted.source,
        "taken_at": found.accepted.taken_at,
        "worse": len(found.worse),
        "changes": [
            {
                "unit": one.unit,
                "kind": one.kind,
                "field": one.field,
                "before": one.before,
                "after": one.after,
                "is_worse": one.is_worse,
            }
            for one in found.changes
        ],
    }


def _unit(unit: UnitAudit) -> Json:
    return {
        "name": shown(unit.name.encode()),
        "path": unit.path,
        "enabled": unit.enabled,
        "state": unit.state,
        "from_vendor": unit.from_vendor,
        "starts": unit.starts,
        "restarts": unit.restarts,
        "births": unit.births,
        "zombies": unit.zombies,
        "processes": unit.processes,
        "restart_policy": unit.policy.restart,
        "can_loop": unit.policy.can_loop,
        "loop_why": unit.loop_why,
        "upheld_by": unit.upheld_by,
        "restarts_inside": unit.restarts_inside,
        "start_limit_can_trip": unit.policy.can_trip,
        "makes_cgroups": unit.makes_cgroups,
        "needed_by": [shown(name.encode()) for name in unit.needed_by],
        "verdict": unit.need,
        "why": unit.why,
        "evidence": [{"fact": item.fact, "value": item.value, "source": item.source} for item in unit.evidence],
    }
