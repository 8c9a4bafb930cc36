# SPDX-License-Identifier: Apache-2.0
"""Something is started again and again inside a unit that stays up, where NRestarts stays 0 and no start limit counts.

Children that come and go are what a runtime does for a living: a loop is only told from churn by what it leaves, or by a
runtime's own count of restarts.
"""

from __future__ import annotations

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Finding, Role, Verdict
from zombiescope.diagnosis.loops import Suspect, evidence_of, suspects_of, told
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap

ID = "looping-container"
TITLE = "Something is restarted over and over inside a running unit"


def judge_looping_container(case: Case) -> Finding:
    seen = case.services
    if isinstance(seen, Gap):
        return Finding(ID, Verdict.UNKNOWN, Severity.UNKNOWN, Role.ORIGIN, TITLE, seen.reason, ())
    suspects = suspects_of(case, frozenset({"inside", "container"}))
    found = [each for each in suspects if each.loop.kind == "container" or each.is_leaking(case.thresholds)]
    if found:
        evidence = tuple(item for each in found for item in evidence_of(case, each, seen))
        severity = Severity.CRITICAL if found[0].is_leaking(case.thresholds) else Severity.WARNING
        return Finding(
            ID, Verdict.PRESENT, severity, Role.ORIGIN, TITLE, told(found), evidence, (), _remedies(found[0])
        )
    if suspects and isinstance(case.remains, Gap):
        why = f"children of {suspects[0].loop.name} come and go; whether they leave anything is not known"
        return Finding(ID, Verdict.UNKNOWN, Severity.UNKNOWN, Role.ORIGIN, TITLE, why, ())
    summary = f"none was seen in {seen.seconds:.0f} s"
    if suspects:
        summary = f"children of {suspects[0].loop.name} come and go and leave nothing behind: churn, not a leak"
    evidence = tuple(item for each in suspects for item in evidence_of(case, each, seen))
    return Finding(ID, Verdict.ABSENT, Severity.OK, Role.ORIGIN, TITLE, summary, evidence)


def _remedies(first: Suspect) -> tuple[str, ...]:
    """A start limit counts nothing inside a unit: it is stopped, or its runtime is told to stop."""
    return ("stop-container", "stop-unit") if first.loop.kind == "container" else ("stop-unit",)
