# SPDX-License-Identifier: Apache-2.0
"""Plainly too little memory: tasks stall or reclaim runs, and it is not a walk over zombies that makes it dear. Needs other
remedies than zombies do: memory, a larger limit, or a smaller job."""

from __future__ import annotations

from zombiescope.analysis.zombie_cost import is_walk
from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Evidence, Finding, Role, Verdict
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap

ID = "memory-shortage"
TITLE = "There is too little memory for the work"


def judge_memory_shortage(case: Case) -> Finding:
    seen, reclaim, population = case.pressure, case.reclaim, case.last.scan.population
    if isinstance(seen, Gap):
        return _finding(Verdict.UNKNOWN, seen.reason)
    if isinstance(population, Gap):
        return _finding(Verdict.UNKNOWN, f"whether zombies are behind it is not known: {population.reason}")
    may_walk = population.zombies >= case.thresholds.reclaim_walk_least_zombies
    if isinstance(reclaim, Gap):
        return _finding(Verdict.UNKNOWN, f"what reclaim does is not known: {reclaim.reason}")
    stall = seen.stall("memory.some")
    own = reclaim.cpu_seconds / reclaim.seconds if reclaim.seconds > 0 else 0.0
    share = own + (seen.mean("kswapd_share") or 0.0)
    severity = case.thresholds.of_reclaim_share(share, seen.cores, stall)
    at = case.last.snapshot.taken_at
    evidence: tuple[Evidence, ...] = (
        Evidence("reclaim.share", round(share, 3), "of one core", "bpf, /proc/PID/stat", at),
    )
    if stall is not None:
        evidence += (Evidence("stall.memory", round(stall, 3), "of the time", "/proc/pressure/memory", at),)
    if severity is Severity.OK:
        if stall is None:
            return _finding(Verdict.UNKNOWN, "nothing tells how long tasks stalled on memory")
        return _finding(Verdict.ABSENT, f"not seen in {seen.seconds:.0f} s", evidence)
    if may_walk and any(is_walk(kind, population.zombies) for kind in reclaim.kinds):
        return _finding(
            Verdict.ABSENT, "reclaim is dear because it walks over zombies, not for want of memory", evidence
        )
    waits = f", and tasks stalled on memory {stall:.0%} of the time" if stall is not None else ""
    summary = f"reclaim took {share:.0%} of a core{waits}, with {population.zombies:,} zombies that do not explain it"
    return _finding(Verdict.PRESENT, summary, evidence)._replace(severity=severity, remedies=("give-memory",))


def _finding(verdict: Verdict, summary: str, evidence: tuple[Evidence, ...] = ()) -> Finding:
    severity = Severity.UNKNOWN if verdict is Verdict.UNKNOWN else Severity.OK
    return Finding(ID, verdict, severity, Role.ORIGIN, TITLE, summary, evidence)
