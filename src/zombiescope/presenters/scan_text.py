# SPDX-License-Identifier: Apache-2.0
"""A scan for a person: the disease first, then parents, cost, what is not known, and what to type next."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from zombiescope.analysis import cost
from zombiescope.analysis.reclaim_pass import NOT_WATCHED, ReclaimPass
from zombiescope.analysis.scan import ParentShare, Scan
from zombiescope.diagnosis.case import Observation
from zombiescope.diagnosis.engine import Diagnosis, Disease
from zombiescope.diagnosis.thresholds import Severity, Thresholds
from zombiescope.facts.cgroups import HandedOn, Hierarchy
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.presenters.document import one_per_field, rfc3339
from zombiescope.presenters.figures import UNKNOWN, Column, Fitting, count, duration, size
from zombiescope.presenters.scan_json import scan_gaps

STYLES = {Severity.OK: "green", Severity.WARNING: "yellow", Severity.CRITICAL: "bold red", Severity.UNKNOWN: "magenta"}
_PARENTS_SHOWN = 10
_WORTH_A_WATCH = Thresholds().reclaim_walk_least_zombies
_KINDS = ("file", "shmem", "anon", "swap")


def render_scan_text(
    observation: Observation,
    diagnosis: Diagnosis,
    reclaim: ReclaimPass | Gap = NOT_WATCHED,
    *,
    explain: bool,
) -> list[RenderableType]:
    scan = observation.scan
    parts: list[RenderableType] = [
        Text(diagnosis.verdict, style=STYLES[diagnosis.worst]),
        _where(observation, diagnosis.glanced),
    ]
    if not isinstance(scan.parents, Gap) and scan.parents:
        parts += [Text(), _parents_table(scan.parents[:_PARENTS_SHOWN])]
        if len(scan.parents) > _PARENTS_SHOWN:
            parts.append(
                Text(f"  and {len(scan.parents) - _PARENTS_SHOWN:,} more parents (--json lists all)", style="dim")
            )
    parts += handed_on_lines(observation.snapshot.handed_on)
    parts += [Text(), *_cost_lines(scan, reclaim)]
    if explain:
        parts += [Text(), *_explanation(observation)]
    gaps = one_per_field(scan_gaps(observation, reclaim=reclaim))
    unknown = [gap for gap in gaps if not gap.fact.startswith("growth")]
    parts += gap_lines(unknown)
    parts += [Text(), _labelled("next", _next(diagnosis, scan))]
    return parts


def gap_lines(gaps: Iterable[Gap]) -> list[RenderableType]:
    """What is not known, one line a reason, with what would help."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for gap in gaps:
        reasons.setdefault((gap.reason, gap.hint), []).append(gap.fact)
    lines = []
    for (reason, hint), facts in reasons.items():
        names = ", ".join(facts[:2]) + (f" and {len(facts) - 2} more" if len(facts) > 2 else "")
        lines.append(_labelled("unknown", f"{names}: {reason}" + (f" ({hint})" if hint else ""), "dim"))
    return [Text(), *lines] if lines else []


def _labelled(label: str, text: str, style: str = "") -> RenderableType:
    grid = Table.grid(padding=(0, 1))
    grid.add_column(width=9, no_wrap=True)
    grid.add_column(overflow="fold")
    grid.add_row(Text(label, style="bold"), Text(text, style=style))
    return grid


def _where(observation: Observation, severity: Severity) -> Text:
    snapshot = observation.snapshot
    parts = [f"severity {severity}"]
    if isinstance(snapshot.hierarchy, Hierarchy):
        hybrid = " (hybrid: both are mounted)" if snapshot.hierarchy.is_hybrid else ""
        parts.append(f"memory on cgroup {snapshot.hierarchy.version}{hybrid}")
    if not isinstance(observation.scan.population, Gap):
        parts.append(f"counted by {observation.scan.population.source}")
    parts.append(snapshot.source)
    parts += [f"kernel {snapshot.identity.kernel}"] if snapshot.identity.kernel else []
    return Text(" · ".join(parts), style="dim")


def _parents_table(parents: tuple[ParentShare, ...]) -> Fitting:
    path = Column("nearest live parent", is_number=False, least_width=len("nearest live parent"))
    columns = [path, Column("zombies"), *map(Column, _KINDS)]
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
        text = f"{happens}: how much of the dead was left to {parents} cannot be told from the memory of the living"
        return [Text(), _labelled("handed on", text)]
    path, most = max(found.by_parent.items(), key=lambda each: (each[1].bytes_held, each[0]))
    where = f"{len(found.by_parent):,} live parents, most to" if len(found.by_parent) > 1 else "one live parent,"
    untold = f"; of {found.unsplit:,} more parents it cannot be told" if found.unsplit else ""
    text = (
        f"{happens}: {size(found.total)} are charged to {where} {shown(path)} ({size(most.bytes_held)}), and to none of the "
        f"cgroups that live below{untold}"
    )
    return [Text(), _labelled("handed on", text)]


def _cost_lines(scan: Scan, reclaim: ReclaimPass | Gap) -> list[RenderableType]:
    lines = []
    if not isinstance(scan.kernel_cost, Gap):
        each = size(scan.kernel_cost.bytes_per_zombie)
        lines.append(
            f"kernel memory held: about {size(scan.kernel_cost.total_bytes)} ({each} a zombie, an estimate: --explain)"
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
    return [_labelled("cost" if number == 0 else "", line) for number, line in enumerate(lines)]


def _how(reclaim: ReclaimPass) -> str:
    if reclaim.calls is None or reclaim.watched_seconds is None:
        return f"(as the agent saw it last, {rfc3339(reclaim.at)})"
    times = "once" if reclaim.calls == 1 else f"{reclaim.calls:,} times"
    return f"(on average; it ran {times} in {reclaim.watched_seconds:,.0f} s)"


def _explanation(observation: Observation) -> list[RenderableType]:
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
            f"kernel memory {known.total_bytes:,} bytes = {known.zombies:,} zombies x ({cost.SLAB_BYTES:,} slab "
            f"+ {cost.SLAB_BYTES_PER_EXTRA_NODE:,} x {known.nodes - 1} further nodes + {known.cpus} possible CPUs x "
            f"({cost.PERCPU_BYTES:,} + {cost.PERCPU_BYTES_PER_NODE} x {known.nodes} nodes)); pinned pages not included"
        )
    if not isinstance(scan.sweep, Gap) and scan.sweep.slowest_file:
        lines.append(f"slowest file of the sweep: {scan.sweep.slowest_file} in {duration(scan.sweep.slowest_seconds)}")
    lines.append(
        "bytes by parent: what memory.stat counts at the parent and no live cgroup there owns, the least of three samples"
    )
    return [_labelled("explain" if number == 0 else "", line) for number, line in enumerate(lines)]


def _next(diagnosis: Diagnosis, scan: Scan) -> str:
    match diagnosis.disease:
        case Disease.NONE if diagnosis.glanced is not Severity.OK:
            return "zombiescope doctor"
        case Disease.NONE if not isinstance(scan.population, Gap) and scan.population.zombies >= _WORTH_A_WATCH:
            return "nothing to do by the counts; zombiescope doctor watches whether reclaim pays for them"
        case Disease.NONE:
            return "nothing to do; zombiescope doctor looks longer"
        case Disease.UNKNOWN:
            return "run as root on the host itself; zombiescope doctor says what is missing"
        case Disease.ZOMBIES | Disease.DIRECTORIES | Disease.BOTH:
            return "zombiescope doctor"
