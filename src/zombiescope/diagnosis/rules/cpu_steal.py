# SPDX-License-Identifier: Apache-2.0
"""The hypervisor gave the cores to others: what looks like a stalled machine from inside, and no remedy inside helps."""

from __future__ import annotations

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.core_shares import shares_of
from zombiescope.diagnosis.finding import Evidence, Finding, Role, Verdict
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap

ID = "cpu-steal"
TITLE = "The hypervisor takes the CPU away"
_ONE_CORE = 0.5
"""What the worst core alone counts: tasks can move to another, but interrupts and whatever is bound to it cannot."""


def judge_cpu_steal(case: Case) -> Finding:
    shares = shares_of(case.cores)
    if isinstance(shares, Gap):
        return Finding(ID, Verdict.UNKNOWN, Severity.UNKNOWN, Role.ORIGIN, TITLE, shares.reason, ())
    limits = case.thresholds
    worst = max(shares.steal, _ONE_CORE * shares.worst_steal)
    severity = Severity.CRITICAL if worst >= limits.steal_critical else Severity.WARNING
    verdict = Verdict.PRESENT if worst >= limits.steal_warning else Verdict.ABSENT
    if verdict is Verdict.ABSENT:
        severity = Severity.OK
    summary = f"{shares.steal:.0%} of CPU time was stolen in {shares.seconds:.0f} s"
    if verdict is Verdict.PRESENT:
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
    remedies = ("move-host",) if verdict is Verdict.PRESENT else ()
    return Finding(ID, verdict, severity, Role.ORIGIN, TITLE, summary, evidence, (), remedies)
