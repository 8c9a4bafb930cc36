# SPDX-License-Identifier: Apache-2.0
"""Directories that were never removed: live, empty memory cgroups by the thousand. Another disease than zombies."""

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Evidence, Finding, Role
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.cgroups import EmptyDirectories
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.facts.remedies import Remedy

FINDING = Declaration(
    id="visible-leak",
    title="Directories never removed",
    role=Role.MECHANISM,
    remedies=(Remedy.REMOVE_DIRECTORIES,),
    thing="directories that are never removed",
    link="empty cgroup directories are never removed",
    spoken="directories never removed: {summary}; {not_zombies}",
    what=(
        "Thousands of empty cgroup directories that nobody removed. They are alive and visible: this is not the "
        "zombie problem."
    ),
    matters="They cost what zombies cost, but removing the directories is enough.",
    do="Find the program that makes the directories and does not remove them; remove the empty ones with rmdir.",
    judged_by=("empty_directories_warning", "empty_directories_critical"),
    next="zombiescope scan",
    proven_by="visible-leak",
)


def judge(case: Case) -> Finding:
    empties = case.last.scan.empty_directories
    if isinstance(empties, Gap):
        return _judge_by_number(case, empties)
    severity = case.thresholds.of_empty_directories(empties.estimate)
    return FINDING.judged(severity, _summary(empties), _evidence(empties, case.last.snapshot.taken_at))


def _judge_by_number(case: Case, gap: Gap) -> Finding:
    """Which are empty is not known; but fewer live cgroups than the threshold cannot hold a leak, whatever is in them."""
    population, at = case.last.scan.population, case.last.snapshot.taken_at
    if isinstance(population, Gap) or case.thresholds.of_empty_directories(population.live) is not Severity.OK:
        return FINDING.unknown(gap.reason)
    summary = f"{population.live:,} live cgroups are too few for a leak of directories"
    return FINDING.absent(summary, (Evidence("live", population.live, "cgroups", population.source, at),))


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
