# SPDX-License-Identifier: Apache-2.0
"""What reclaim spends its time on, for the rules that must agree about it: a walk over zombies, want of memory, or undecided."""

from zombiescope.analysis.scan import ParentShare
from zombiescope.analysis.zombie_cost import Below, ReclaimWork, Walking, derive_works
from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.cores import CoreMode
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.facts.reclaim import ReclaimSeen

DECIDES = (
    "what would decide it: free the zombies (zombiescope plan) and watch again; if reclaim costs as much without them, memory is "
    "short"
)


def works_of(case: Case) -> tuple[ReclaimWork, ...] | Gap:
    """Of every sort of reclaim that ran, the dearest first."""
    population = case.last.scan.population
    if isinstance(case.reclaim, Gap):
        return case.reclaim
    if isinstance(population, Gap):
        return population
    least = case.thresholds.reclaim_walk_least_zombies
    return derive_works(
        case.reclaim, population.zombies, population.live, _below(case), least, lambda path: _live_below(case, path)
    )


def _below(case: Case) -> Below | None:
    """Where the zombies lie: by the kernel's own counts (v2), else by a walk; None where neither tells."""
    parents = case.last.scan.parents
    if not isinstance(parents, Gap) and parents and all(share.zombies is not None for share in parents):
        return lambda path: _counted_below(parents, path)
    return None if isinstance(case.remains, Gap) or not case.remains.parents else case.remains.below


def _live_below(case: Case, path: str) -> int | None:
    """By the directories, where the census listed them (v1) and this one among them."""
    census = case.last.snapshot.census
    tree = None if isinstance(census, Gap) else census.tree
    if tree is None:
        return None
    name = path.rstrip("/")
    inside = [found for found in map(shown, tree.paths) if (found.rstrip("/") + "/").startswith(name + "/")]
    return len(inside) if any(found.rstrip("/") == name for found in inside) else None


def _counted_below(parents: tuple[ParentShare, ...], path: str) -> int:
    inside = path.rstrip("/") + "/"
    return sum(share.zombies or 0 for share in parents if (shown(share.path).rstrip("/") + "/").startswith(inside))


def harmful_walk(case: Case, walking: Walking) -> tuple[ReclaimWork, Severity] | None:
    """The dearest work of this sort that is felt, and how much."""
    works, seen = works_of(case), case.reclaim
    if isinstance(works, Gap) or isinstance(seen, Gap):
        return None
    for work in works:
        severity = case.thresholds.of_walk(core_share(seen, work), longest(seen, work))
        if work.walking is walking and severity is not Severity.OK:
            return work, Severity.CRITICAL if _holds_a_core(case, work) else severity
    return None


def _holds_a_core(case: Case, work: ReclaimWork) -> bool:
    """A core had no time but for the kernel, without a break, and this work took long enough to be most of that: many short calls
    hold it as one long call does, whatever their share of a longer window."""
    if isinstance(case.cores, Gap):
        return False
    held = max((each.seconds for each in case.cores.stretches if each.mode is CoreMode.SYSTEM), default=0.0)
    return case.thresholds.of_stretch(held) is not Severity.OK and 2 * work.cpu_seconds >= held


def core_share(seen: ReclaimSeen, work: ReclaimWork) -> float:
    """Of one core."""
    return work.cpu_seconds / seen.seconds if seen.seconds > 0 else 0.0


def longest(seen: ReclaimSeen, work: ReclaimWork) -> float:
    """The longest call of its kind, where most of that kind's time is this work's: else it may have been another's."""
    kind = next(kind for kind in seen.kinds if kind.kind is work.kind)
    return kind.longest_seconds if 2 * work.cpu_seconds >= kind.cpu_seconds else work.call_seconds


def told(seen: ReclaimSeen, work: ReclaimWork) -> str:
    times = "once" if work.calls == 1 else f"{work.calls:,} times"
    return (
        f"reclaim ({work.kind}) ran {times}, {span(work.call_seconds)} of CPU each (longest {span(longest(seen, work))}), took "
        f"{core_share(seen, work):.0%} of a core and gave back {work.pages:,} pages"
    )


def span(seconds: float) -> str:
    """Three digits; what rounds up to a thousand of a unit is one of the next."""
    if seconds >= 0.1:
        return (
            f"{1e3 * seconds:.0f} ms"
            if seconds < 0.9995
            else f"{seconds:.1f} s"
            if seconds < 10.0
            else f"{seconds:,.0f} s"
        )
    if seconds >= 0.9995e-3:
        return f"{1e3 * seconds:.3g} ms"
    return f"{1e6 * seconds:.3g} us" if seconds >= 0.9995e-6 else f"{1e9 * seconds:.3g} ns"
