# SPDX-License-Identifier: Apache-2.0
"""Plainly too much to compute: every core busy with programs of users. No kernel disease, and no cgroup to blame."""

from __future__ import annotations

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.core_shares import shares_of
from zombiescope.diagnosis.finding import Evidence, Finding, Role, Verdict
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap

ID = "cpu-shortage"
TITLE = "All cores are busy with user programs"
_WORTH_TELLING = 0.05
"""Of all time, accounted to nobody: as much as `shortage_most_idle`, so that less cannot have changed the answer."""


def judge_cpu_shortage(case: Case) -> Finding:
    shares = shares_of(case.cores)
    if isinstance(shares, Gap):
        return Finding(ID, Verdict.UNKNOWN, Severity.UNKNOWN, Role.ORIGIN, TITLE, shares.reason, ())
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
    if not is_short:
        return Finding(ID, Verdict.ABSENT, Severity.OK, Role.ORIGIN, TITLE, summary, evidence)
    return Finding(ID, Verdict.PRESENT, Severity.WARNING, Role.ORIGIN, TITLE, summary, evidence, (), ("find-cpu",))
