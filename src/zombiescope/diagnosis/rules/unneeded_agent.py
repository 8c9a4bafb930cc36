# SPDX-License-Identifier: Apache-2.0
"""An agent that starts here and has nothing to serve: the cheapest cause to remove, before or after it loops."""

from __future__ import annotations

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Evidence, Finding, Role
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap
from zombiescope.facts.remedies import Remedy

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
_NAMED = 5


def judge(case: Case) -> Finding:
    seen = case.services
    if isinstance(seen, Gap) or not seen.were_files_read:
        why = seen.reason if isinstance(seen, Gap) else "unit files were not read"
        return FINDING.unknown(why)
    if not seen.unneeded:
        summary = f"none of {seen.starting:,} services"
        return FINDING.absent(summary)
    named = "; ".join(f"{unit.name} ({unit.why})" for unit in seen.unneeded[:_NAMED])
    more = f"; and {len(seen.unneeded) - _NAMED} more" if len(seen.unneeded) > _NAMED else ""
    evidence = tuple(
        Evidence(f"{unit.name} is {unit.enabled}", unit.why, "", unit.path, seen.at) for unit in seen.unneeded
    )
    severity = Severity.CRITICAL if any(unit.may_loop for unit in seen.unneeded) else Severity.WARNING
    return FINDING.present(severity, named + more, evidence)
