# SPDX-License-Identifier: Apache-2.0
"""The hypervisor gave the cores to others: what looks like a stalled machine from inside, and no remedy inside helps."""

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Evidence, Finding, Role
from zombiescope.diagnosis.thresholds import Severity, graded
from zombiescope.facts.cores import shares_of
from zombiescope.facts.gap import Gap
from zombiescope.facts.remedies import Remedy

FINDING = Declaration(
    id="cpu-steal",
    title="The hypervisor takes the CPU away",
    role=Role.ORIGIN,
    remedies=(Remedy.MOVE_HOST,),
    thing="CPU time taken by the hypervisor",
    link="the hypervisor takes the CPUs away",
    what="The hypervisor gave this machine's cores to others.",
    matters="From inside it looks like a stalled machine. Nothing inside helps.",
    do="Move the machine to another hypervisor, or ask for less overcommitment.",
    judged_by=("steal_warning", "steal_critical"),
    next="zombiescope cores",
    proven_by="steal",
    takes_cpu=True,
)
_ONE_CORE = 0.5
"""What the worst core alone counts: tasks can move to another, but interrupts and whatever is bound to it cannot."""


def judge(case: Case) -> Finding:
    shares = shares_of(case.cores)
    if isinstance(shares, Gap):
        return FINDING.unknown(shares.reason)
    limits = case.thresholds
    worst = max(shares.steal, _ONE_CORE * shares.worst_steal)
    severity = graded(worst, limits.steal_warning, limits.steal_critical)
    summary = f"{shares.steal:.0%} of CPU time was stolen in {shares.seconds:.0f} s"
    if severity is not Severity.OK:
        summary += f", {shares.worst_steal:.0%} of core {shares.worst_steal_core}"
    evidence = (
        Evidence("steal", round(shares.steal, 3), "of CPU time", "/proc/stat", shares.at),
        Evidence(
            f"core[{shares.worst_steal_core}].steal",
            round(shares.worst_steal, 3),
            "of the core",
            "/proc/stat",
            shares.at,
        ),
    )
    return FINDING.judged(severity, summary, evidence)
