# SPDX-License-Identifier: Apache-2.0
"""`zombiescope.scan/1`. Every null has a gap that names its field."""

from typing import Any

from zombiescope.analysis.growth import Growth
from zombiescope.analysis.scan import NOT_WATCHED, ParentShare, ReclaimPass, Scan
from zombiescope.diagnosis.case import NO_HISTORY, Observation
from zombiescope.diagnosis.engine import Diagnosis
from zombiescope.facts.cgroups import Census, HandedOn, Hierarchy, MemoryUse, Residuals, Snapshot
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.presenters.document import Json, document, missing
from zombiescope.presenters.history_json import growth_gaps, render_growth

_KINDS = ("file", "shmem", "anon", "swap", "unevictable")
_UNSPLIT = Gap(
    "parents[].bytes",
    "cgroup v2 does not tell a parent's own pages from its zombies' at the root and where memory is not handed on",
)
_GARBLED = Gap("parents[].bytes", "memory.stat of the parent or of a child was not in a form we know")
_GONE = Gap("parents[].bytes", "the parent went away while its memory.stat was read", "scan again")


def render_scan(
    observation: Observation,
    diagnosis: Diagnosis,
    growth: Growth | Gap = NO_HISTORY,
    reclaim: ReclaimPass | Gap = NOT_WATCHED,
) -> Json:
    snapshot, scan = observation.snapshot, observation.scan
    gaps = scan_gaps(observation, growth, reclaim) + missing(snapshot.handed_on, "handed_on")
    body: Json = {
        "disease": diagnosis.disease,
        "severity": diagnosis.glanced,
        "memcg": _memcg(snapshot, scan),
        "parents": [] if isinstance(scan.parents, Gap) else [_parent(share) for share in scan.parents],
        "handed_on": render_handed_on(snapshot.handed_on),
        "visible_leak": _visible_leak(scan),
        "cost": _cost(scan, reclaim),
        "growth": render_growth(growth),
    }
    return document("scan/1", snapshot, body, gaps)


def _memcg(snapshot: Snapshot, scan: Scan) -> Json:
    hierarchy = snapshot.hierarchy.version if isinstance(snapshot.hierarchy, Hierarchy) else None
    population = scan.population
    if isinstance(population, Gap):
        return {"hierarchy": hierarchy, "counted": None, "live": None, "zombies": None, "ratio": None, "source": None}
    return {
        "hierarchy": hierarchy,
        "counted": population.counted,
        "live": population.live,
        "zombies": population.zombies,
        "ratio": round(population.ratio, 3),
        "source": population.source,
    }


def _parent(share: ParentShare) -> Json:
    return {"path": shown(share.path), "zombies": share.zombies, "bytes": _bytes(share.use)}


def render_handed_on(found: HandedOn | Gap) -> Json | None:
    if isinstance(found, Gap):
        return None
    largest = sorted(found.by_parent.items(), key=lambda each: (-each[1].bytes_held, each[0]))
    kinds = ("file", "shmem", "anon")
    parents = [{"path": shown(path), "bytes": {kind: getattr(use, kind) for kind in kinds}} for path, use in largest]
    return {"happens": found.happens, "parents": parents, "parents_untold": found.unsplit}


def _bytes(use: MemoryUse | None) -> dict[str, Any]:
    return {kind: getattr(use, kind) if use else None for kind in _KINDS}


def _visible_leak(scan: Scan) -> Json:
    empties = scan.empty_directories
    if isinstance(empties, Gap):
        return {"empty_directories": None, "leaf_directories": None, "examined": None}
    return {
        "empty_directories": empties.estimate,
        "leaf_directories": empties.leaves,
        "examined": empties.seen,
    }


def _cost(scan: Scan, reclaim: ReclaimPass | Gap) -> Json:
    sweep = scan.sweep
    return {
        "kernel_bytes": None if isinstance(scan.kernel_cost, Gap) else scan.kernel_cost.total_bytes,
        "sweep_seconds": None if isinstance(sweep, Gap) else round(sweep.seconds, 6),
        "sweep_cgroups_read": None if isinstance(sweep, Gap) else sweep.cgroups_read,
        "reclaim_pass_seconds": None if isinstance(reclaim, Gap) else round(reclaim.seconds, 6),
    }


def scan_gaps(
    observation: Observation, growth: Growth | Gap = NO_HISTORY, reclaim: ReclaimPass | Gap = NOT_WATCHED
) -> list[Gap]:
    """A gap for each field that is null."""
    snapshot, scan = observation.snapshot, observation.scan
    leak = ("empty_directories", "leaf_directories", "examined")
    return [
        *missing(snapshot.hierarchy, "memcg.hierarchy"),
        *missing(scan.population, *(f"memcg.{name}" for name in ("counted", "live", "zombies", "ratio", "source"))),
        *_parent_gaps(snapshot, scan),
        *missing(scan.empty_directories, *(f"visible_leak.{name}" for name in leak)),
        *missing(scan.kernel_cost, "cost.kernel_bytes"),
        *missing(scan.sweep, "cost.sweep_seconds", "cost.sweep_cgroups_read"),
        *([reclaim] if isinstance(reclaim, Gap) else ()),
        *growth_gaps(growth),
    ]


def _parent_gaps(snapshot: Snapshot, scan: Scan) -> list[Gap]:
    if isinstance(scan.parents, Gap):
        return [scan.parents.about("parents")]
    gaps: list[Gap] = []
    if isinstance(snapshot.census, Census) and any(share.zombies is None for share in scan.parents):
        gaps += snapshot.census.gaps
    without = [share.path for share in scan.parents if share.use is None]
    if without:
        gaps += [_why_no_bytes(snapshot.residuals, without).about(f"parents[].bytes.{kind}") for kind in _KINDS]
    if any(share.use and share.use.swap is None for share in scan.parents):
        gaps.append(Gap("parents[].bytes.swap", "this kernel does not account swap to memory cgroups"))
    return gaps


def _why_no_bytes(residuals: Residuals | Gap, paths: list[bytes]) -> Gap:
    if isinstance(residuals, Gap):
        return residuals
    if any(path in residuals.garbled for path in paths):
        return _GARBLED
    return _UNSPLIT if any(path in residuals.unsplit for path in paths) else _GONE
