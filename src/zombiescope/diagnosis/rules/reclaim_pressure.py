# SPDX-License-Identifier: Apache-2.0
"""Looking for memory takes a good part of a core, or tasks stall because it is short. What drives it is for other rules to say: a
full machine, a limit, or a walk over zombies."""

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Evidence, Finding, Role
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.facts.reclaim import PressureSeen, ReclaimSeen

FINDING = Declaration(
    id="reclaim-pressure",
    title="Reclaim takes much of the CPU, or tasks stall on memory",
    role=Role.MECHANISM,
    explained_by=("costly-reclaim-walk", "memory-shortage"),
    thing="waits for memory",
    link="reclaim takes CPU time and tasks wait for memory",
    follows="tasks wait for memory",
    what="Looking for free memory takes a good part of a core, or tasks wait for memory.",
    matters=(
        "Programs are slow, whatever the cause. The cause is another finding: zombies, a limit, or simply too "
        "little memory."
    ),
    do="Read which finding explains it; treat that one.",
    judged_by=("reclaim_share", "memory_stall_share", "memory_stall_critical_share"),
    next="zombiescope doctor",
    proven_by="pressure",
    is_riddle=True,
)


def judge(case: Case) -> Finding:
    seen, reclaim = case.pressure, case.reclaim
    if isinstance(seen, Gap):
        return FINDING.unknown(seen.reason)
    share, stall = _share(seen, reclaim), seen.stall("memory.some")
    severity = case.thresholds.of_reclaim_share(share or 0.0, seen.cores, stall)
    told = [] if share is None else [f"reclaim took {share:.0%} of a core"]
    told += [] if stall is None else [f"some task stalled on memory {stall:.0%} of the time"]
    words = ", and ".join(told)
    evidence = _evidence(seen, reclaim, share, stall, case.last.snapshot.taken_at)
    if severity is not Severity.OK:
        return FINDING.present(severity, words, evidence)
    gap = reclaim if isinstance(reclaim, Gap) else None
    if gap is None and stall is None:
        gap = next(iter(seen.gaps), Gap("pressure.stalls", "nothing tells how long tasks stalled"))
    if gap is not None:
        return FINDING.unknown(f"{words}; more is not known: {gap.reason}" if words else gap.reason, evidence)
    return FINDING.absent(f"not seen in {seen.seconds:,.0f} s: {words}", evidence)


def _share(seen: PressureSeen, reclaim: ReclaimSeen | Gap) -> float | None:
    """Of one core: kswapd, and the tasks that had to reclaim themselves; None where neither was seen."""
    own = None if isinstance(reclaim, Gap) or reclaim.seconds <= 0 else reclaim.cpu_seconds / reclaim.seconds
    kswapd = seen.mean("kswapd_share")
    return None if own is None and kswapd is None else (own or 0.0) + (kswapd or 0.0)


def _evidence(
    seen: PressureSeen, reclaim: ReclaimSeen | Gap, share: float | None, stall: float | None, end: float
) -> tuple[Evidence, ...]:
    found = [Evidence("watched", round(seen.seconds, 1), "seconds", "/proc/vmstat", end)]
    if share is not None:
        source = "bpf" if isinstance(reclaim, ReclaimSeen) else "kswapd"
        found.append(Evidence("reclaim.share", round(share, 4), "of one core", source, end))
    rates = {name: seen.mean(f"{name}_pages") for name in ("direct", "kswapd", "limit")}
    found += [
        Evidence(f"scanned[{name}]", round(rate), "pages per second", "/proc/vmstat", end)
        for name, rate in rates.items()
        if rate is not None
    ]
    faults = seen.mean("major_faults")
    if faults is not None:
        found.append(Evidence("major_faults", round(faults, 1), "per second", "/proc/vmstat", end))
    if stall is not None:
        found.append(Evidence("stalled[memory.some]", round(stall, 4), "of the time", "/proc/pressure/memory", end))
    return (*found, *_by_cgroup(seen, end))


def _by_cgroup(seen: PressureSeen, end: float) -> list[Evidence]:
    """Of the cgroups that hold zombies, those whose tasks waited longest for memory."""
    if isinstance(seen.groups, Gap):
        return []
    told = [(seen.group_stall(path, "memory.some"), path) for path in seen.groups]
    worst = sorted([(share, path) for share, path in told if share], reverse=True)[:3]
    return [
        Evidence(f"stalled[{shown(path)}].memory.some", round(share, 4), "of the time", "memory.pressure", end)
        for share, path in worst
    ]
