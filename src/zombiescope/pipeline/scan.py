# SPDX-License-Identifier: Apache-2.0
"""Observe a machine once, put it in numbers, judge: `scan`."""

from __future__ import annotations

from contextlib import closing
from typing import NamedTuple

from zombiescope import pipeline
from zombiescope.analysis.growth import Growth
from zombiescope.analysis.scan import NOT_WATCHED, ReclaimPass, derive_reclaim_pass, derive_scan
from zombiescope.diagnosis.case import NO_HISTORY, NO_RECLAIM, Case, Observation
from zombiescope.diagnosis.engine import Diagnosis, glance
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.errors import ObservationError
from zombiescope.facts.cgroups import Census, Hierarchy, Residuals, Snapshot
from zombiescope.facts.gap import Gap
from zombiescope.facts.reclaim import ReclaimSeen
from zombiescope.host.access import Host
from zombiescope.pipeline.opening import Progress
from zombiescope.probes import readers
from zombiescope.probes.cgroups import read_memory_hierarchy
from zombiescope.probes.readers.cgroup_census import read_census, read_empty_directories, read_live_tree
from zombiescope.probes.readers.memcg_residual import read_handed_on, read_residuals
from zombiescope.probes.readers.node import read_identity, read_shape
from zombiescope.probes.readers.stat_sweep import read_stat_sweep

USUAL = Thresholds()


class Scanned(NamedTuple):
    observation: Observation
    diagnosis: Diagnosis
    thresholds: Thresholds
    growth: Growth | Gap = NO_HISTORY
    reclaim: ReclaimPass | Gap = NOT_WATCHED


def scan(  # noqa: PLR0913 (what to look at, and what to measure it by)
    host: Host,
    *,
    with_bytes: bool = True,
    exact: bool = False,
    state: bytes | None = None,
    watch_seconds: float = 0.0,
    progress: Progress = lambda _: None,
    thresholds: Thresholds = USUAL,
) -> Scanned:
    """At a glance: one snapshot, in numbers and judged. `state`: where an agent may keep a history of this host;
    `watch_seconds`: wait so long for reclaim to run."""
    observation = observe(host, with_bytes=with_bytes, exact=exact, progress=progress)
    growth: Growth | Gap = NO_HISTORY
    remembered: ReclaimPass | None = None
    if state is not None and host.label == "this host":
        growth, remembered = _recent(host, state, thresholds)
    reclaim: ReclaimPass | Gap = remembered or NOT_WATCHED
    if watch_seconds:
        progress(f"waiting for reclaim to run, {watch_seconds:g} s")
        seen = watch_reclaim_pass(host, watch_seconds)
        reclaim = (remembered or seen) if isinstance(seen, Gap) else seen
    return Scanned(
        observation,
        glance(Case((observation,), thresholds, growth, reclaim=recorded_reclaim(host))),
        thresholds,
        growth,
        reclaim,
    )


def recorded_reclaim(host: Host) -> ReclaimSeen | Gap:
    """What a recording kept of its window is as good as measured; a live host would have to be watched."""
    return NO_RECLAIM if host.is_live else readers.reclaim_rates.ReclaimWindow(host).seen()


def watch_reclaim_pass(host: Host, seconds: float) -> ReclaimPass | Gap:
    """Stamps the begin and the end of every call, and changes nothing; ends with the process, however that ends."""
    with closing(readers.reclaim_rates.ReclaimWindow(host)) as window:
        host.wait(seconds)
        return derive_reclaim_pass(window.seen(), host.wall_clock())


def _recent(host: Host, state: bytes, thresholds: Thresholds) -> tuple[Growth | Gap, ReclaimPass | None]:

    try:
        recent = pipeline.recall.recent_from_history(host, state, thresholds)
    except ObservationError as error:
        return Gap("growth", error.why, error.hint), None
    return (recent.growth, recent.reclaim) if recent else (NO_HISTORY, None)


def growth_of(host: Host, state: bytes, thresholds: Thresholds = USUAL) -> Growth | Gap:
    return _recent(host, state, thresholds)[0]


def observe(
    host: Host, *, with_bytes: bool = True, exact: bool = False, progress: Progress = lambda _: None
) -> Observation:
    """One clock reading; every fact is there or is a gap."""
    taken_at = host.wall_clock()
    identity, shape = read_identity(host), read_shape(host)
    hierarchy = read_memory_hierarchy(host)
    if isinstance(hierarchy, Gap):
        snapshot = Snapshot(taken_at, host.label, identity, shape, hierarchy, *(hierarchy,) * 4)
        return Observation(snapshot, derive_scan(snapshot))
    progress("counting memory cgroups")
    census = read_census(host, hierarchy)
    if exact and isinstance(census, Census) and census.parents is None:
        progress("walking the kernel's memory cgroups")
        census = _with_exact_parents(host, census)
    live = census.tree if isinstance(census, Census) and census.tree else read_live_tree(host, hierarchy)
    snapshot = Snapshot(
        taken_at,
        host.label,
        identity,
        shape,
        hierarchy,
        census,
        _residuals(host, hierarchy, census, progress)
        if with_bytes
        else Gap("parents[].bytes", "left out by --no-bytes"),
        live if isinstance(live, Gap) else read_stat_sweep(host, hierarchy, live.paths),
        live if isinstance(live, Gap) else read_empty_directories(host, hierarchy, live.leaves),
        read_handed_on(host, hierarchy, live) if with_bytes else Gap("handed_on", "left out by --no-bytes"),
    )
    return Observation(snapshot, derive_scan(snapshot))


def _with_exact_parents(host: Host, census: Census) -> Census:
    """On v1 only the kernel's own tree tells which zombie lies below which live parent."""
    walk = readers.zombie_walk.read_zombie_walk(host)
    if isinstance(walk, Gap):
        return census._replace(gaps=(walk.about("parents[].zombies"),))
    return census._replace(parents=walk.count_by_parent(), gaps=())


def _residuals(host: Host, hierarchy: Hierarchy, census: Census | Gap, progress: Progress) -> Residuals | Gap:
    if isinstance(census, Gap):
        return census
    if min(look.zombies for look in census.looks) == 0:
        return Residuals({}, frozenset())
    progress("adding up the bytes that no live cgroup owns")
    return read_residuals(host, hierarchy, census.parents)
