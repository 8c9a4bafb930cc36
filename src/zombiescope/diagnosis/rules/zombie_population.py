# SPDX-License-Identifier: Apache-2.0
"""Dead memory cgroups that the kernel still holds: how many, against how many live ones."""

from zombiescope.diagnosis.case import Case, Observation
from zombiescope.diagnosis.finding import Declaration, Evidence, Finding, Role
from zombiescope.diagnosis.stock import stock_severity
from zombiescope.facts.gap import Gap
from zombiescope.facts.remedies import Remedy

FINDING = Declaration(
    id="zombie-population",
    title="Zombie memory cgroups",
    role=Role.MECHANISM,
    explained_by=(
        "pinned-page-cache",
        "pinned-shared-memory",
        "pinned-swap",
        "pinned-writeback",
        "pinned-other",
        "crash-looping-unit",
        "looping-container",
        "zombie-growth",
    ),
    remedies=(Remedy.LOOK_CLOSER,),  # what holds them is for other rules to treat
    thing="zombies",
    link="{stock} pile up in the kernel",
    spoken="zombies: {summary}; what holds them could not be seen",
    what=(
        "Memory cgroups were removed, but the kernel still holds them because something they were charged for "
        "is still there."
    ),
    matters=(
        "Each one costs kernel memory, and reclaim and readers of statistics have to walk over it. Nothing in "
        "/sys/fs/cgroup shows them."
    ),
    do=(
        "Find out who makes them and what holds them (zombiescope autopsy), stop the maker first, then free "
        "what it left."
    ),
    judged_by=(
        "zombies_warning",
        "zombies_critical",
        "ratio_warning",
        "ratio_critical",
        "ratio_least_zombies",
        "ratio_critical_zombies",
    ),
    next="zombiescope autopsy",
    proven_by="no-walk-innocent",
)


def judge(case: Case) -> Finding:
    population = case.last.scan.population
    if isinstance(population, Gap):
        return FINDING.unknown(population.reason)
    severity = stock_severity(case, population)
    summary = (
        f"{population.zombies:,} dead memory cgroups are still in the kernel "
        f"({population.counted:,} counted, {population.live:,} live{_walked(case, population.zombies)})"
    )
    return FINDING.judged(severity, summary, tuple(_evidence(case)))


def _walked(case: Case, zombies: int) -> str:
    """Where the walk, which comes after the count, found another number: what holds them is told of those."""
    if isinstance(case.remains, Gap) or case.remains.zombies == zombies:
        return ""
    later = case.remains.at - case.last.snapshot.taken_at
    when = f" {later:.0f} s later" if later >= 1 else ""
    return f"; the autopsy{when} found {case.remains.zombies:,} dead"


def _evidence(case: Case) -> list[Evidence]:
    evidence = _of(case.last)
    if len(case.observations) > 1:
        first, last = case.first.scan.population, case.last.scan.population
        if not isinstance(first, Gap) and not isinstance(last, Gap):
            at, change = case.last.snapshot.taken_at, last.zombies - first.zombies
            unit = f"cgroups in {at - case.first.snapshot.taken_at:.0f} s"
            evidence.append(Evidence("zombies_change", change, unit, first.source, at))
    return evidence


def _of(seen: Observation) -> list[Evidence]:
    population, at = seen.scan.population, seen.snapshot.taken_at
    assert not isinstance(population, Gap)
    evidence = [
        Evidence("zombies", population.zombies, "cgroups", population.source, at),
        Evidence("counted", population.counted, "cgroups", population.source, at),
        Evidence("live", population.live, "cgroups", population.source, at),
        Evidence("ratio", round(population.ratio, 2), "counted per live", population.source, at),
    ]
    if not isinstance(seen.scan.kernel_cost, Gap):
        evidence.append(Evidence("kernel_bytes", seen.scan.kernel_cost.total_bytes, "bytes", "estimate", at))
    return evidence
