# SPDX-License-Identifier: Apache-2.0
"""A scan for a person: the disease first, then parents, cost, what is not known, and what to type next."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from zombiescope.analysis.scan import (
    NOT_WATCHED,
    PERCPU_BYTES,
    PERCPU_BYTES_PER_NODE,
    SLAB_BYTES,
    SLAB_BYTES_PER_EXTRA_NODE,
    ParentShare,
    ReclaimPass,
    Scan,
)
from zombiescope.diagnosis.case import Observation
from zombiescope.diagnosis.engine import Diagnosis, Disease
from zombiescope.diagnosis.thresholds import Severity, Thresholds
from zombiescope.facts.cgroups import CountSource, HandedOn, Hierarchy
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.presenters.document import one_per_field, rfc3339
from zombiescope.presenters.figures import UNKNOWN, count, duration, size
from zombiescope.presenters.layout import Block, Column, Command, Fitting, Prose, again, unknown_block
from zombiescope.presenters.scan_json import scan_gaps

STYLES = {Severity.OK: "green", Severity.WARNING: "yellow", Severity.CRITICAL: "bold red", Severity.UNKNOWN: "magenta"}
_PARENTS_SHOWN = 10
_WORTH_A_WATCH = Thresholds().reclaim_walk_least_zombies
_KINDS = ("file", "shmem", "anon", "swap")
_SOURCES = {
    CountSource.PROC_CGROUPS: "/proc/cgroups",
    CountSource.CGROUP_STAT_SUBSYS: "cgroup.stat",
    CountSource.CGROUP_STAT_DESCENDANTS: "cgroup.stat (all controllers)",
    CountSource.WALK: "a walk through the kernel",
}


def render_scan_text(
    observation: Observation,
    diagnosis: Diagnosis,
    reclaim: ReclaimPass | Gap = NOT_WATCHED,
    *,
    explain: bool = False,
    root: str | None = None,
) -> list[RenderableType]:
    """`root`: the recording or folder that was looked at."""
    scan = observation.scan
    parts: list[RenderableType] = [
        Prose(diagnosis.verdict, STYLES[diagnosis.worst]),
        _where(observation, diagnosis),
    ]
    if not isinstance(scan.parents, Gap) and scan.parents:
        parts += [Text(), _parents_table(scan.parents[:_PARENTS_SHOWN])]
        if len(scan.parents) > _PARENTS_SHOWN:
            parts.append(
                Text(f"  and {len(scan.parents) - _PARENTS_SHOWN:,} more parents (--json lists all)", style="dim")
            )
    parts += handed_on_lines(observation.snapshot.handed_on)
    cost_block = Block("cost", _cost_lines(scan, reclaim))
    for block in (cost_block, Block("explain", _explanation(observation) if explain else [])):
        parts += [Text(), block] if block.lines else []
    gaps = one_per_field(scan_gaps(observation, reclaim=reclaim))
    parts += unknown_block(gap for gap in gaps if not gap.fact.startswith("growth"))
    return [*parts, Text(), _next(diagnosis, scan, root)]


def _where(observation: Observation, diagnosis: Diagnosis) -> Text:
    snapshot = observation.snapshot
    parts = [f"severity {diagnosis.glanced}"]
    if diagnosis.disease is Disease.NONE:
        told = (diagnosis.finding(each).summary for each in ("zombie-population", "visible-leak"))
        parts += [summary for summary in told if summary not in diagnosis.verdict]
    if isinstance(snapshot.hierarchy, Hierarchy):
        hybrid = " (hybrid: both are mounted)" if snapshot.hierarchy.is_hybrid else ""
        parts.append(f"memory on cgroup {snapshot.hierarchy.version}{hybrid}")
    if not isinstance(observation.scan.population, Gap):
        parts.append(f"counted by {_SOURCES[observation.scan.population.source]}")
    parts.append(snapshot.source)
    parts += [f"kernel {snapshot.identity.kernel}"] if snapshot.identity.kernel else []
    return Text(" · ".join(parts), style="dim")


def _parents_table(parents: tuple[ParentShare, ...]) -> Fitting:
    columns = [
        Column("nearest live parent", is_number=False, least_width=len("nearest live parent")),
        Column("zombies"),
        *map(Column, _KINDS),
    ]
    return Fitting(columns, [(shown(share.path), *_figures(share)) for share in parents])


def _figures(share: ParentShare) -> tuple[str, ...]:
    return count(share.zombies), *(size(getattr(share.use, kind)) if share.use else UNKNOWN for kind in _KINDS)


def handed_on_lines(found: HandedOn | Gap) -> list[RenderableType]:
    """Without zombies the memory is still in use: it is their parents' now."""
    if isinstance(found, Gap) or not (found.by_parent or found.unsplit):
        return []
    happens = "this kernel gives a dead cgroup's memory to its parent instead of keeping a zombie"
    if not found.by_parent:
        parents = f"{found.unsplit:,} live parents" if found.unsplit > 1 else "one live parent"
        text = f"{happens}: how much of the memory of {parents} came from the dead is not known"
        return [Text(), Block("handed on", [text])]
    path, most = max(found.by_parent.items(), key=lambda each: (each[1].bytes_held, each[0]))
    where = f"{len(found.by_parent):,} live parents, most to" if len(found.by_parent) > 1 else "one live parent,"
    untold = f"; for {found.unsplit:,} more parents this is not known" if found.unsplit else ""
    text = (
        f"{happens}: {size(found.total)} are charged to {where} {shown(path)} ({size(most.bytes_held)}), and to none of the "
        f"live cgroups below{untold}"
    )
    return [Text(), Block("handed on", [text])]


def _cost_lines(scan: Scan, reclaim: ReclaimPass | Gap) -> list[str]:
    lines = []
    if not isinstance(scan.kernel_cost, Gap):
        each = size(scan.kernel_cost.bytes_per_zombie)
        lines.append(
            f"kernel memory held: about {size(scan.kernel_cost.total_bytes)} ({each} per zombie, an estimate: --explain)"
        )
    if not isinstance(scan.sweep, Gap):
        sampled = (
            "" if scan.sweep.cgroups_read == scan.sweep.cgroups else f", scaled up from {scan.sweep.cgroups_read:,}"
        )
        lines.append(
            f"one statistics sweep: {duration(scan.sweep.seconds)} over {scan.sweep.cgroups:,} live cgroups{sampled}"
        )
    if not isinstance(reclaim, Gap):
        lines.append(f"one pass of reclaim: {duration(reclaim.seconds)} {_how(reclaim)}")
    return lines


def _how(reclaim: ReclaimPass) -> str:
    if reclaim.calls is None or reclaim.watched_seconds is None:
        return f"(as the agent saw it last, {rfc3339(reclaim.at)})"
    times = "once" if reclaim.calls == 1 else f"{reclaim.calls:,} times"
    return f"(on average; it ran {times} in {reclaim.watched_seconds:,.0f} s)"


def _explanation(observation: Observation) -> list[str]:
    scan = observation.scan
    lines = []
    if not isinstance(scan.population, Gap):
        lines.append(
            f"zombies {scan.population.zombies:,} = counted {scan.population.counted:,} - live {scan.population.live:,}: "
            "the lower of two looks a second apart"
        )
    if not isinstance(scan.kernel_cost, Gap):
        known = scan.kernel_cost
        lines.append(
            f"kernel memory {known.total_bytes:,} bytes = {known.zombies:,} zombies x ({SLAB_BYTES:,} slab "
            f"+ {SLAB_BYTES_PER_EXTRA_NODE:,} x {known.nodes - 1} further nodes + {known.cpus} possible CPUs x "
            f"({PERCPU_BYTES:,} + {PERCPU_BYTES_PER_NODE} x {known.nodes} nodes)); pinned pages not included"
        )
    if not isinstance(scan.sweep, Gap) and scan.sweep.slowest_file:
        lines.append(f"slowest file of the sweep: {scan.sweep.slowest_file} in {duration(scan.sweep.slowest_seconds)}")
    lines.append(
        "bytes by parent: what memory.stat counts at the parent and no live cgroup there owns, the least of three samples"
    )
    return lines


def _next(diagnosis: Diagnosis, scan: Scan, root: str | None) -> Command:
    doctor = again("doctor", root)
    match diagnosis.disease:
        case Disease.NONE if diagnosis.glanced is Severity.OK:
            many = not isinstance(scan.population, Gap) and scan.population.zombies >= _WORTH_A_WATCH
            told = "nothing to do; to see whether reclaim pays for them" if many else "nothing to do; to look closer"
            return Command(told, doctor)
        case Disease.UNKNOWN:
            return Command("run it as root, on the host itself; to see what is missing", doctor)
        case _:
            return Command("to see the cause and what to do", doctor)
