# SPDX-License-Identifier: Apache-2.0
"""Directories that were never removed: live, empty memory cgroups by the thousand. Another disease than zombies."""

from __future__ import annotations

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Evidence, Finding, Role, Verdict
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.cgroups import EmptyDirectories
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown

ID = "visible-leak"
TITLE = "Directories never removed"


def judge_visible_leak(case: Case) -> Finding:
    empties = case.last.scan.empty_directories
    if isinstance(empties, Gap):
        return _judge_by_number(case, empties)
    severity = case.thresholds.of_empty_directories(empties.estimate)
    verdict = Verdict.ABSENT if severity is Severity.OK else Verdict.PRESENT
    evidence = _evidence(empties, case.last.snapshot.taken_at)
    remedies = ("remove-directories",) if verdict is Verdict.PRESENT else ()
    return Finding(ID, verdict, severity, Role.MECHANISM, TITLE, _summary(empties), evidence, (), remedies)


def _judge_by_number(case: Case, gap: Gap) -> Finding:
    """Which are empty is not known; but fewer live cgroups than the threshold cannot hold a leak, whatever is in them."""
    population, at = case.last.scan.population, case.last.snapshot.taken_at
    if isinstance(population, Gap) or case.thresholds.of_empty_directories(population.live) is not Severity.OK:
        return Finding(ID, Verdict.UNKNOWN, Severity.UNKNOWN, Role.MECHANISM, TITLE, gap.reason, ())
    summary = f"{population.live:,} live cgroups are too few for a leak of directories"
    evidence = (Evidence("live", population.live, "cgroups", population.source, at),)
    return Finding(ID, Verdict.ABSENT, Severity.OK, Role.MECHANISM, TITLE, summary, evidence)


def _summary(empties: EmptyDirectories) -> str:
    about = "" if empties.seen == empties.leaves else "about "
    verb = "has" if empties.estimate == 1 else "have"
    return f"{about}{empties.estimate:,} of {empties.leaves:,} live leaf cgroups {verb} no process"


def _evidence(empties: EmptyDirectories, at: float) -> tuple[Evidence, ...]:
    source = "cgroup.procs" if empties.seen == empties.leaves else f"cgroup.procs of {empties.seen} of them"
    counts = (
        Evidence("empty_directories", empties.estimate, "cgroups", source, at),
        Evidence("leaf_directories", empties.leaves, "cgroups", "directories", at),
    )
    return counts + tuple(Evidence("example", shown(path), "path", source, at) for path in empties.examples)
