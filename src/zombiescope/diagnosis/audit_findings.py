# SPDX-License-Identifier: Apache-2.0
"""The audit's findings, by the rules that `doctor` judges with: loops now, agents nobody needs, and what an image will do when it
boots. Absent only where it is known what starts, and nothing that may loop is left without a verdict."""

from __future__ import annotations

from zombiescope.diagnosis.audit import Audit, Subject
from zombiescope.diagnosis.finding import Declaration, Evidence, Finding
from zombiescope.diagnosis.rules import crash_looping_unit, image_risk, looping_container, unneeded_agent
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.names import few


def judge_audit(audit: Audit, at: float) -> tuple[Finding, ...]:
    unneeded = unneeded_agent.judge_audit(audit, at) or _not_seen(audit, at, unneeded_agent.FINDING, _none_of(audit))
    if audit.subject is Subject.HOST:
        return crash_looping_unit.judge_audit(audit, at), looping_container.judge_audit(audit, at), unneeded
    risk = image_risk.judge_audit(audit, at) or _not_seen(audit, at, image_risk.FINDING, "no such unit")
    return unneeded, risk


def _none_of(audit: Audit) -> str:
    unsure = len(audit.not_judged_names)
    tail = f"; {unsure} could not be judged" if unsure else ""
    workloads = sum(one.starts for one in audit.workloads if one.workload.is_container)
    beside = f" and {workloads} containers" if workloads else ""
    return f"none of {len(audit.starting)} services{beside}{tail}"


def _not_seen(audit: Audit, at: float, declared: Declaration, summary: str) -> Finding:
    if audit.cannot_tell:
        return declared.unknown(audit.cannot_tell)
    units, workloads = audit.loop_risks, audit.unsure_workloads
    told = [f"{unit.name}: {image_risk.told_risk(unit.loop_why, unit.policy.restarts_per_day)}" for unit in units]
    told += [f"{one.name}: {one.lives.why}" for one in workloads]
    if not told and audit.unread_workloads:
        return declared.unknown(audit.unread_workloads[0].reason)
    if not told:
        return declared.absent(summary)
    evidence = tuple(Evidence(f"{unit.name} is {unit.enabled}", unit.why, "", unit.path, at) for unit in units)
    evidence += tuple(Evidence(f"{one.name}: {one.lives.why}", one.why, "", one.workload.path, at) for one in workloads)
    summary = f"{summary}; nobody could say whether these are needed, and they may be restarted for ever: {few(told)}"
    return declared.unknown(summary, evidence)._replace(severity=Severity.WARNING)
