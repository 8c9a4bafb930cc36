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
from zombiescope.facts.pods import PodsSeen
from zombiescope.facts.services import ServicesSeen

LOOP_KINDS = frozenset({"inside", "container", "pod"})

ID = "looping-container"
TITLE = "Something is restarted over and over inside a running unit"
_OF_CONTAINERS = "A container is restarted over and over"
_BY_THEMSELVES = ("container", "pod")
"""Kinds of loops that their own count of restarts tells."""


def judge_looping_container(case: Case) -> Finding:
    seen: ServicesSeen | PodsSeen | Gap = case.pods if isinstance(case.services, Gap) else case.services
    if isinstance(seen, Gap):
        assert isinstance(case.services, Gap)
        return Finding(ID, Verdict.UNKNOWN, Severity.UNKNOWN, Role.ORIGIN, TITLE, case.services.reason, ())
    suspects = suspects_of(case, LOOP_KINDS)
    found = [each for each in suspects if each.loop.kind in _BY_THEMSELVES or each.is_leaking(case.thresholds)]
    if found:
        evidence = tuple(item for each in found for item in evidence_of(case, each, seen))
        severity = Severity.CRITICAL if found[0].is_leaking(case.thresholds) else Severity.WARNING
        title = _OF_CONTAINERS if found[0].loop.kind in _BY_THEMSELVES else TITLE
        return Finding(
            ID, Verdict.PRESENT, severity, Role.ORIGIN, title, told(found), evidence, (), _remedies(found[0])
        )
    if suspects and isinstance(case.remains, Gap):
        why = f"children of {suspects[0].loop.name} come and go; whether they leave anything is not known"
        return Finding(ID, Verdict.UNKNOWN, Severity.UNKNOWN, Role.ORIGIN, TITLE, why, ())
    summary = f"none was seen in {seen.seconds:.0f} s{_which(case)}"
    if suspects:
        summary = f"children of {suspects[0].loop.name} come and go and leave nothing behind: churn, not a leak"
    evidence = tuple(item for each in suspects for item in evidence_of(case, each, seen))
    return Finding(ID, Verdict.ABSENT, Severity.OK, Role.ORIGIN, TITLE, summary, evidence)


def _which(case: Case) -> str:
    """Of what, where not everything could be watched."""
    if not isinstance(case.services, Gap):
        return ""
    pods = 0 if isinstance(case.pods, Gap) else len(case.pods.pods)
    return f" among the containers of {pods:,} pods; services were not watched: {case.services.reason}"


def _remedies(first: Suspect) -> tuple[str, ...]:
    """A start limit counts nothing inside a unit: it is stopped, or its runtime or its cluster is told to stop."""
    match first.loop.kind:
        case "pod":
            return ("stop-workload",)
        case "container":
            return ("stop-container",)
        case _:
            return ("stop-unit",)
