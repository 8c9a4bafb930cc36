# SPDX-License-Identifier: Apache-2.0
"""Something is started again and again inside a unit that stays up, where NRestarts stays 0 and no start limit counts.

Children that come and go are what a runtime does for a living: a loop is only told from churn by what it leaves, or by a
runtime's own count of restarts.
"""

from typing import TYPE_CHECKING

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Finding, Role
from zombiescope.diagnosis.loops import churn_seen, evidence_of, judge_audit_loops, judge_loops, suspects_of
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.facts.gap import Gap
from zombiescope.facts.pods import PodsSeen
from zombiescope.facts.remedies import Remedy
from zombiescope.facts.units import ServicesSeen

if TYPE_CHECKING:
    from zombiescope.diagnosis.audit import Audit

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


def judge(case: Case) -> Finding:
    seen: ServicesSeen | PodsSeen | Gap = case.pods if isinstance(case.services, Gap) else case.services
    if isinstance(seen, Gap):
        assert isinstance(case.services, Gap)
        return FINDING.unknown(case.services.reason)
    suspects = suspects_of(case, FINDING.loops)
    evidence = evidence_of(case, suspects, seen)
    judged = judge_loops(FINDING, suspects, evidence, case.thresholds, churn_seen(case.remains))
    return judged or FINDING.absent(f"none was seen in {seen.seconds:.0f} s{_which(case)}")


def judge_audit(audit: "Audit", at: float) -> Finding:
    return judge_audit_loops(FINDING, audit, at, Thresholds()) or FINDING.absent("none was seen")


def _which(case: Case) -> str:
    """Of what, where not everything could be watched."""
    if not isinstance(case.services, Gap):
        return ""
    pods = 0 if isinstance(case.pods, Gap) else len(case.pods.pods)
    return f" among the containers of {pods:,} pods; services were not watched: {case.services.reason}"
