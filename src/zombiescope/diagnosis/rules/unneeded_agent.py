# SPDX-License-Identifier: Apache-2.0
"""An agent that starts here and has nothing to serve: the cheapest cause to remove, before or after it loops."""

from __future__ import annotations

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Evidence, Finding, Role, Verdict
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap

ID = "unneeded-agent"
TITLE = "An agent with nothing to serve is enabled"
_NAMED = 5


def judge_unneeded_agent(case: Case) -> Finding:
    seen = case.services
    if isinstance(seen, Gap) or not seen.were_files_read:
        why = seen.reason if isinstance(seen, Gap) else "unit files were not read"
        return Finding(ID, Verdict.UNKNOWN, Severity.UNKNOWN, Role.ORIGIN, TITLE, why, ())
    if not seen.unneeded:
        summary = f"none of {seen.starting:,} services"
        return Finding(ID, Verdict.ABSENT, Severity.OK, Role.ORIGIN, TITLE, summary, ())
    named = "; ".join(f"{unit.name} ({unit.why})" for unit in seen.unneeded[:_NAMED])
    more = f"; and {len(seen.unneeded) - _NAMED} more" if len(seen.unneeded) > _NAMED else ""
    evidence = tuple(
        Evidence(f"{unit.name} is {unit.enabled}", unit.why, "", unit.path, seen.at) for unit in seen.unneeded
    )
    severity = Severity.CRITICAL if any(unit.may_loop for unit in seen.unneeded) else Severity.WARNING
    return Finding(ID, Verdict.PRESENT, severity, Role.ORIGIN, TITLE, named + more, evidence, (), ("stop-unit",))
