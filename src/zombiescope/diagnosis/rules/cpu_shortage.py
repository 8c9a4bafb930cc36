# SPDX-License-Identifier: Apache-2.0
"""Plainly too much to compute: every core busy with programs of users. No kernel disease, and no cgroup to blame."""

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Evidence, Finding, Role
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.cores import shares_of
from zombiescope.facts.gap import Gap
from zombiescope.facts.remedies import Remedy

FINDING = Declaration(
    id="cpu-shortage",
    title="All cores are busy with user programs",
    role=Role.ORIGIN,
    explained_by=("real-time-hog",),
    remedies=(Remedy.FIND_CPU,),
    thing="too few CPUs for the programs",
    link="user programs keep all cores busy",
    what="All cores are busy with programs of users.",
    matters="There is simply too much to compute. No cgroup is to blame.",
    do="Find what uses the cores; move work away or add cores.",
    judged_by=("shortage_most_idle", "shortage_least_user"),
    next="zombiescope cores",
    proven_by="user-hog",
    takes_cpu=True,
)
_WORTH_TELLING = 0.05
"""Of all time, accounted to nobody: as much as `shortage_most_idle`, so that less cannot have changed the answer."""


def judge(case: Case) -> Finding:
    shares = shares_of(case.cores)
    if isinstance(shares, Gap):
        return FINDING.unknown(shares.reason)
    limits = case.thresholds
    is_short = shares.idle <= limits.shortage_most_idle and shares.user >= limits.shortage_least_user
    known = "of CPU time" if shares.lost < _WORTH_TELLING else "of the CPU time that is accounted for"
    summary = f"{shares.user:.0%} {known} was in user mode, {shares.idle:.0%} idle, in {shares.seconds:.0f} s"
    if shares.lost >= _WORTH_TELLING:
        summary += f"; {shares.lost:.0%} of all time is not"
    evidence = (
        Evidence("user", round(shares.user, 3), "of CPU time", "/proc/stat", shares.at),
        Evidence("idle", round(shares.idle, 3), "of CPU time", "/proc/stat", shares.at),
    )
    return FINDING.judged(Severity.WARNING if is_short else Severity.OK, summary, evidence)
