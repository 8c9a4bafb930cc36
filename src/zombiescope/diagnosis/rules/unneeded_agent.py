# SPDX-License-Identifier: Apache-2.0
"""An agent that starts here and has nothing to serve: the cheapest cause to remove, before or after it loops."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Evidence, Finding, Role
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import few
from zombiescope.facts.remedies import Remedy

if TYPE_CHECKING:
    from zombiescope.diagnosis.audit import Audit, UnitAudit
    from zombiescope.diagnosis.workload_audit import WorkloadAudit
    from zombiescope.facts.units import UnneededService

    Unneeded = UnneededService | UnitAudit | WorkloadAudit

FINDING = Declaration(
    id="unneeded-agent",
    title="An agent with nothing to serve is enabled",
    role=Role.ORIGIN,
    remedies=(Remedy.STOP_UNIT,),
    thing="an agent that nothing needs",
    link="{who} is enabled, although nothing needs it",
    somebody="an agent",
    spoken="no harm is done yet, but an agent with nothing to serve starts here: {summary}",
    what="An agent is enabled on this host that has nothing to serve here.",
    matters="It is the cheapest cause to remove, before or after it loops.",
    do="Disable it, or mask it where the vendor's package enables it.",
    next="zombiescope audit",
    proven_by="other-zone",
)


def severity_of(agent: "Unneeded") -> Severity:
    return Severity.CRITICAL if agent.may_loop else Severity.WARNING


def judge(case: Case) -> Finding:
    seen = case.services
    if isinstance(seen, Gap) or not seen.were_files_read:
        return FINDING.unknown(seen.reason if isinstance(seen, Gap) else "unit files were not read")
    evidence = (Evidence(f"{unit.name} is {unit.enabled}", unit.why, "", unit.path, seen.at) for unit in seen.unneeded)
    return _present(seen.unneeded, tuple(evidence)) or FINDING.absent(f"none of {seen.starting:,} services")


def judge_audit(audit: "Audit", at: float) -> Finding | None:
    """None where there is none, as far as could be judged."""
    units, workloads = audit.unneeded, audit.unneeded_workloads
    evidence = tuple(Evidence(f"{unit.name} is {unit.enabled}", unit.why, "", unit.path, at) for unit in units)
    evidence += tuple(Evidence(f"{one.name}: {one.lives.why}", one.why, "", one.workload.path, at) for one in workloads)
    return _present([*units, *workloads], evidence)


def _present(found: "Sequence[Unneeded]", evidence: tuple[Evidence, ...]) -> Finding | None:
    if not found:
        return None
    severity = Severity.CRITICAL if Severity.CRITICAL in map(severity_of, found) else Severity.WARNING
    return FINDING.present(severity, few([f"{one.name} ({one.why})" for one in found]), evidence)
