# SPDX-License-Identifier: Apache-2.0
"""Plainly too little memory: tasks stall or reclaim runs, and a walk over zombies is ruled out. Needs other remedies than zombies
do: memory, a larger limit, or a smaller job. Where a walk cannot be ruled out, both causes stand."""

from zombiescope.analysis.scan import Population
from zombiescope.analysis.zombie_cost import ReclaimWork, Walking
from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Evidence, Finding, Role
from zombiescope.diagnosis.reclaim_work import DECIDES, core_share, span, works_of
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap
from zombiescope.facts.reclaim import PressureSeen
from zombiescope.facts.remedies import Remedy

FINDING = Declaration(
    id="memory-shortage",
    title="There is too little memory for the work",
    role=Role.ORIGIN,
    remedies=(Remedy.GIVE_MEMORY,),
    thing="a shortage of memory",
    link="there is too little memory for the work",
    spoken="{title}: {summary}",
    what="There is too little memory for the work; a walk over zombies was ruled out.",
    matters="Freeing zombies would not help here.",
    do="Give more memory, raise the limit that was reached, or make the job smaller.",
    judged_by=("memory_stall_share", "memory_stall_critical_share"),
    next="zombiescope doctor",
    proven_by="pressure",
)


def judge(case: Case) -> Finding:
    seen, population = case.pressure, case.last.scan.population
    if isinstance(seen, Gap):
        return FINDING.unknown(seen.reason)
    if isinstance(population, Gap):
        return FINDING.unknown(f"whether zombies are behind it is not known: {population.reason}")
    works = works_of(case)
    are_few = _are_few(case, seen, population)
    if isinstance(works, Gap) and not are_few:
        return FINDING.unknown(f"what reclaim does is not known: {works.reason}")
    share, stall = _share(case, seen), seen.stall("memory.some")
    severity = case.thresholds.of_reclaim_share(share, seen.cores, stall)
    evidence = _evidence(case, share, stall)
    if severity is Severity.OK:
        if stall is None or isinstance(works, Gap):
            return FINDING.unknown(
                "nothing tells how long tasks stalled on memory" if stall is None else "what reclaim does is not known"
            )
        return FINDING.absent(f"not seen in {seen.seconds:.0f} s", evidence)
    waits = f", and tasks stalled on memory {stall:.0%} of the time" if stall is not None else ""
    took = f"reclaim took {share:.0%} of a core{waits}"
    works = () if isinstance(works, Gap) else works
    cause = _cause(case, seen, works, are_few=are_few)
    if cause is Walking.YES:
        return FINDING.absent(
            "reclaim is expensive because it walks over zombies, not because memory is short", evidence
        )
    if cause is Walking.MAYBE:
        why = f"{took}: memory is short, or reclaim walks over {population.zombies:,} zombies; {DECIDES}"
        return FINDING.unknown(why, evidence)
    return FINDING.present(severity, f"{took}; {_ruled_out(works, population, are_few=are_few)}", evidence)


def _share(case: Case, seen: PressureSeen) -> float:
    """Of one core: the tasks that reclaim themselves, where they were timed, and kswapd."""
    reclaim = case.reclaim
    own = 0.0 if isinstance(reclaim, Gap) or reclaim.seconds <= 0 else reclaim.cpu_seconds / reclaim.seconds
    return own + (seen.mean("kswapd_share") or 0.0)


def _cause(case: Case, seen: PressureSeen, works: tuple[ReclaimWork, ...], *, are_few: bool) -> Walking:
    """What most of the time of reclaim went into. kswapd visits every zombie of the machine, and nobody times its calls."""
    population = case.last.scan.population
    if are_few or isinstance(population, Gap):
        return Walking.NO
    kswapd = seen.mean("kswapd_share") or 0.0
    is_theirs = population.zombies >= population.live and kswapd >= case.thresholds.walk_share
    shares = {Walking.MAYBE: kswapd if is_theirs else 0.0}
    for work in works:
        assert not isinstance(case.reclaim, Gap)
        shares[work.walking] = shares.get(work.walking, 0.0) + core_share(case.reclaim, work)
    surely_not = shares.get(Walking.NO, 0.0)
    if surely_not >= case.thresholds.reclaim_share and surely_not >= shares[Walking.MAYBE]:
        return Walking.NO  # enough of it is surely no walk, and no less than what may be one
    felt = [each for each in (Walking.YES, Walking.MAYBE) if shares.get(each, 0.0) >= case.thresholds.walk_share]
    return felt[0] if felt else Walking.NO


def _are_few(case: Case, seen: PressureSeen, population: Population) -> bool:
    """Too few to be what any reclaim here takes its time for. The live ones of the whole host count only where the whole machine
    is reclaimed: below the limit of one parent may lie all of the dead and hardly any of the living."""
    if population.zombies < case.thresholds.reclaim_walk_least_zombies:
        return True
    if population.zombies >= population.live or not isinstance(case.reclaim, Gap):
        return False
    limit, rest = seen.mean("limit_pages"), (seen.mean("direct_pages") or 0.0) + (seen.mean("kswapd_pages") or 0.0)
    return limit is not None and rest > limit


def _ruled_out(works: tuple[ReclaimWork, ...], population: Population, *, are_few: bool) -> str:
    """Why it is not a walk over zombies."""
    zombies = population.zombies
    work = next((work for work in works if work.walking is Walking.NO), None)
    if are_few or work is None:
        return f"{zombies:,} zombies are too few to explain it"
    if work.are_few and work.is_placed:
        if not work.zombies:
            return (
                f"none of the {zombies:,} zombies is below the limit that is reached: reclaim does not walk over them"
            )
        few = f"the {work.zombies:,} zombies below the limit that is reached"
        return f"{few} are fewer than the live cgroups there: too few to explain it"
    if work.are_few:
        return f"{zombies:,} zombies beside {population.live:,} live cgroups are too few to explain it"
    return (
        f"a call takes {span(work.call_seconds)} and gives back {work.pages_per_call:,.0f} pages: too fast to have walked over "
        f"the {zombies:,} zombies"
    )


def _evidence(case: Case, share: float, stall: float | None) -> tuple[Evidence, ...]:
    at = case.last.snapshot.taken_at
    found = [Evidence("reclaim.share", round(share, 3), "of one core", "bpf, /proc/PID/stat", at)]
    if stall is not None:
        found.append(Evidence("stall.memory", round(stall, 3), "of the time", "/proc/pressure/memory", at))
    return tuple(found)
