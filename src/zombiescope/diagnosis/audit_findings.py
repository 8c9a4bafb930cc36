# SPDX-License-Identifier: Apache-2.0
"""The audit's findings: loops now, agents nobody needs, and what an image will do when it boots."""

from __future__ import annotations

from zombiescope.analysis.unit_churn import Loop
from zombiescope.diagnosis.audit import Audit, Subject, UnitAudit
from zombiescope.diagnosis.finding import Evidence, Finding, Role, Verdict
from zombiescope.diagnosis.rules import image_risk, unneeded_agent
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.diagnosis.workload_audit import WorkloadAudit

_NAMED = 5


def judge_audit(audit: Audit, at: float) -> tuple[Finding, ...]:
    if audit.subject is Subject.HOST:
        return (_loops(audit, at, "crash-looping-unit"), _loops(audit, at, "looping-container"), _unneeded(audit, at))
    return (_unneeded(audit, at), _image_risk(audit, at))


def _loops(audit: Audit, at: float, name: str) -> Finding:
    inside = name == "looping-container"
    title = (
        "something is restarted over and over inside a running unit"
        if inside
        else "systemd restarts a unit over and over"
    )
    found = [loop for loop in audit.loops if (loop.kind != "unit") == inside]
    if not found and not inside and not audit.was_systemd_asked:
        why = "systemd could not be asked"
        return Finding(name, Verdict.UNKNOWN, Severity.UNKNOWN, Role.ORIGIN, title, why, ())
    if not found:
        return Finding(name, Verdict.ABSENT, Severity.OK, Role.ORIGIN, title, "none was seen", ())
    summary = "; ".join(f"{loop.name}: {loop.why}" for loop in found[:_NAMED]) + _more(len(found))
    evidence = tuple(_loop_evidence(loop, at) for loop in found)
    return Finding(name, Verdict.PRESENT, Severity.WARNING, Role.ORIGIN, title, summary, evidence)


def _loop_evidence(loop: Loop, at: float) -> Evidence:
    return Evidence(f"restarts of {loop.name}", loop.restarts, "restarts", loop.source, at)


def _unneeded(audit: Audit, at: float) -> Finding:
    title = "an agent with nothing to serve is enabled"
    found: list[UnitAudit | WorkloadAudit] = [*audit.unneeded, *audit.unneeded_workloads]
    if not found:
        unsure = len(audit.not_judged_names)
        tail = f"; {unsure} could not be judged" if unsure else ""
        workloads = sum(one.starts for one in audit.workloads if one.workload.is_container)
        beside = f" and {workloads} containers" if workloads else ""
        summary = f"none of {len(audit.starting)} services{beside}{tail}"
        return _not_seen(audit, at, "unneeded-agent", title, summary)
    summary = "; ".join(f"{unit.name} ({unit.why})" for unit in found[:_NAMED]) + _more(len(found))
    evidence = tuple(Evidence(f"{unit.name} is {unit.enabled}", unit.why, "", unit.path, at) for unit in audit.unneeded)
    evidence += tuple(_workload_evidence(one, at) for one in audit.unneeded_workloads)
    severity = Severity.CRITICAL if any(unit.is_risk for unit in found) else Severity.WARNING
    return Finding(
        "unneeded-agent",
        Verdict.PRESENT,
        severity,
        Role.ORIGIN,
        title,
        summary,
        evidence,
        (),
        unneeded_agent.FINDING.remedies,
    )


def _image_risk(audit: Audit, at: float) -> Finding:
    title = "an agent that nothing needs will start, and may be restarted for ever"
    found = audit.risks
    told = [f"{unit.name}: {_how(unit)}" for unit in found]
    told += [f"{one.name}: {one.lives.why}" for one in audit.workload_risks]
    if not told:
        return _not_seen(audit, at, "image-risk", title, "no such unit")
    summary = "; ".join(told[:_NAMED]) + _more(len(told))
    evidence = tuple(
        Evidence(f"{unit.name} {item.fact}", item.value, "", item.source, at)
        for unit in found
        for item in unit.evidence
    )
    evidence += tuple(_workload_evidence(one, at) for one in audit.workload_risks)
    return Finding(
        "image-risk",
        Verdict.PRESENT,
        Severity.CRITICAL,
        Role.ORIGIN,
        title,
        summary,
        evidence,
        (),
        image_risk.FINDING.remedies,
    )


def _not_seen(audit: Audit, at: float, name: str, title: str, summary: str) -> Finding:
    """Absent only where it is known what starts, and nothing that may loop is left without a verdict."""
    if audit.cannot_tell:
        return Finding(name, Verdict.UNKNOWN, Severity.UNKNOWN, Role.ORIGIN, title, audit.cannot_tell, ())
    found = [f"{unit.name}: {_how(unit)}" for unit in audit.loop_risks]
    found += [f"{one.name}: {one.lives.why}" for one in audit.unsure_workloads]
    if not found and audit.unread_workloads:
        reason = audit.unread_workloads[0].reason
        return Finding(name, Verdict.UNKNOWN, Severity.UNKNOWN, Role.ORIGIN, title, reason, ())
    if not found:
        return Finding(name, Verdict.ABSENT, Severity.OK, Role.ORIGIN, title, summary, ())
    told = "; ".join(found[:_NAMED]) + _more(len(found))
    evidence = tuple(
        Evidence(f"{unit.name} is {unit.enabled}", unit.why, "", unit.path, at) for unit in audit.loop_risks
    )
    evidence += tuple(_workload_evidence(one, at) for one in audit.unsure_workloads)
    summary = f"{summary}; nobody could say whether these are needed, and they may be restarted for ever: {told}"
    return Finding(name, Verdict.UNKNOWN, Severity.WARNING, Role.ORIGIN, title, summary, evidence)


def _workload_evidence(one: WorkloadAudit, at: float) -> Evidence:
    return Evidence(f"{one.name}: {one.lives.why}", one.why, "", one.workload.path, at)


def _how(unit: UnitAudit) -> str:
    rate = unit.policy.restarts_per_day
    if rate is not None:
        return f"{unit.policy.why}: up to {rate:,.0f} restarts per day, and as many memory cgroups"
    return unit.loop_why


def _more(count: int) -> str:
    return f"; and {count - _NAMED} more" if count > _NAMED else ""
