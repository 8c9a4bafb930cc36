# SPDX-License-Identifier: Apache-2.0
"""Something is started again and again inside a unit that stays up, where NRestarts stays 0 and no start limit counts.

Children that come and go are what a runtime does for a living: a loop is only told from churn by what it leaves, or by a
runtime's own count of restarts.
"""

from __future__ import annotations

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Finding, Role
from zombiescope.diagnosis.loops import Suspect, evidence_of, suspects_of, told
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap
from zombiescope.facts.pods import PodsSeen
from zombiescope.facts.remedies import Remedy
from zombiescope.facts.services import ServicesSeen

FINDING = Declaration(
    id="looping-container",
    title="Something is restarted over and over inside a running unit",
    role=Role.ORIGIN,
    remedies=(Remedy.STOP_WORKLOAD, Remedy.STOP_CONTAINER, Remedy.STOP_UNIT),
    loops=frozenset({"inside", "container", "pod"}),
    thing="a restart loop inside a unit or a pod",
    link="{who} restarts something over and over",
    what=(
        "A container is started again and again, now: by kubelet, by its runtime, or by a unit that stays up, "
        "so systemd counts no restart."
    ),
    matters=(
        "Each start makes a cgroup, and each end may leave a zombie. NRestarts stays 0 and no start limit ever "
        "trips. Restarts of long ago do not count."
    ),
    do=(
        "Stop what starts it: scale the Deployment down, suspend the CronJob, go back to the last rollout "
        "(zombiescope plan has the commands); or limit its restarts in the runtime."
    ),
    judged_by=("leak_least_zombies", "blame_share"),
    next="zombiescope audit",
    proven_by="inner-loop-leaks",
)
_OF_CONTAINERS = "A container is restarted over and over"
_BY_THEMSELVES = ("container", "pod")
"""Kinds of loops that their own count of restarts tells."""


def judge(case: Case) -> Finding:
    seen: ServicesSeen | PodsSeen | Gap = case.pods if isinstance(case.services, Gap) else case.services
    if isinstance(seen, Gap):
        assert isinstance(case.services, Gap)
        return FINDING.unknown(case.services.reason)
    suspects = suspects_of(case, FINDING.loops)
    found = [each for each in suspects if each.loop.kind in _BY_THEMSELVES or each.is_leaking(case.thresholds)]
    if found:
        evidence = tuple(item for each in found for item in evidence_of(case, each, seen))
        severity = Severity.CRITICAL if found[0].is_leaking(case.thresholds) else Severity.WARNING
        title = _OF_CONTAINERS if found[0].loop.kind in _BY_THEMSELVES else FINDING.title
        return FINDING.present(severity, told(found), evidence, _remedies(found[0]))._replace(title=title)
    if suspects and isinstance(case.remains, Gap):
        why = f"children of {suspects[0].loop.name} come and go; whether they leave anything is not known"
        return FINDING.unknown(why)
    summary = f"none was seen in {seen.seconds:.0f} s{_which(case)}"
    if suspects:
        summary = f"children of {suspects[0].loop.name} come and go and leave nothing behind: churn, not a leak"
    evidence = tuple(item for each in suspects for item in evidence_of(case, each, seen))
    return FINDING.absent(summary, evidence)


def _which(case: Case) -> str:
    """Of what, where not everything could be watched."""
    if not isinstance(case.services, Gap):
        return ""
    pods = 0 if isinstance(case.pods, Gap) else len(case.pods.pods)
    return f" among the containers of {pods:,} pods; services were not watched: {case.services.reason}"


def _remedies(first: Suspect) -> tuple[Remedy, ...]:
    """A start limit counts nothing inside a unit: it is stopped, or its runtime or its cluster is told to stop."""
    match first.loop.kind:
        case "pod":
            return (Remedy.STOP_WORKLOAD,)
        case "container":
            return (Remedy.STOP_CONTAINER,)
        case _:
            return (Remedy.STOP_UNIT,)
