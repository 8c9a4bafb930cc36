# SPDX-License-Identifier: Apache-2.0
"""All that an autopsy looks at: the counts, the walk by the best tier this host allows, and whoever else holds zombies.

What only some hosts need (the pages tier, holders, pod names) is loaded when it is needed: a run is short.
"""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.analysis.census import Population, derive_population
from zombiescope.analysis.held import explain, files_in_question, is_unexplained, with_file_holders
from zombiescope.analysis.splitting import split_by_residual
from zombiescope.errors import ObservationError
from zombiescope.facts.beside import NOTHING_BESIDE, Beside
from zombiescope.facts.cgroups import Census, Hierarchy, Look, Residuals
from zombiescope.facts.gap import Gap
from zombiescope.facts.zombies import Tier, Walk, Zombie
from zombiescope.host.access import Host
from zombiescope.host.page_size import page_bytes_of
from zombiescope.pipeline.opening import Progress
from zombiescope.probes.readers.cgroup_census import read_census, read_one_look
from zombiescope.probes.readers.cgroup_mounts import read_memory_hierarchy
from zombiescope.probes.readers.memcg_residual import read_residuals
from zombiescope.probes.readers.zombie_walk import read_zombie_serials, read_zombie_walk

SECONDS_OF_AN_ORDINARY_DEATH = 1.0


class Evidence(NamedTuple):
    taken_at: float
    hierarchy: Hierarchy
    census: Census | Gap
    walk: Walk
    population: Population | None
    """The count nearest to the walk."""
    residuals: Residuals | Gap
    beside: Beside
    gaps: tuple[Gap, ...]


def gather(host: Host, progress: Progress = lambda _: None) -> Evidence:
    taken_at = host.wall_clock()
    hierarchy = read_memory_hierarchy(host)
    if isinstance(hierarchy, Gap):
        raise ObservationError("cannot find the memory cgroups", hierarchy.reason, hierarchy.hint)
    progress("counting memory cgroups")
    census = read_census(host, hierarchy)
    progress("walking the kernel's memory cgroups")
    walk = _walk(host, census)
    population = _nearest_count(host, hierarchy, census, walk)
    walk, population = _settled(host, walk, population)
    progress("adding up the bytes that no live cgroup owns")
    residuals = read_residuals(host, hierarchy, census.parents) if isinstance(census, Census) else census
    if isinstance(residuals, Residuals):
        walk = split_by_residual(walk, residuals)
    walk, beside, gaps = _look_further(host, hierarchy, walk, residuals, progress)
    told = (*_gaps(census, residuals), *gaps)
    return Evidence(taken_at, hierarchy, census, walk, population, residuals, beside, told)


def _look_further(
    host: Host, hierarchy: Hierarchy, walk: Walk, residuals: Residuals | Gap, progress: Progress
) -> tuple[Walk, Beside, tuple[Gap, ...]]:
    """Past what the walk told: who holds what no page explains; and without a walk, the machine's pages."""
    if walk.tier is not Tier.RESIDUAL:
        progress("looking for who holds what no page or name explains")
        walk, gaps = _explained(host, hierarchy, walk)
        walk, more = _with_file_holders(host, walk)
        return walk, NOTHING_BESIDE, gaps + more
    if isinstance(residuals, Gap) or not host.is_live:
        return walk, NOTHING_BESIDE, ()
    from zombiescope.pipeline.pages import look_at_pages, look_beside_pages  # noqa: PLC0415

    seen = look_at_pages(host, hierarchy, residuals, progress)
    beside = look_beside_pages(host, hierarchy, residuals.by_parent)
    if isinstance(seen.pins, Gap):
        return walk, Beside((), beside), (seen.pins.about("pinned_files"),)
    return walk._replace(tier=Tier.PAGES), Beside(seen.pins.files, beside), seen.pins.gaps


def _nearest_count(host: Host, hierarchy: Hierarchy, census: Census | Gap, walk: Walk) -> Population | None:
    """The look before the walk or one right after it, whichever is nearer: on a busy host cgroups die between any two."""
    if isinstance(census, Gap):
        return None
    if walk.tier is Tier.RESIDUAL:
        return derive_population(census)
    counts = [derive_population(census)]
    after = read_one_look(host, hierarchy)
    if isinstance(after, Look):
        counts.append(Population(after.counted, after.live, census.source))
    return min(counts, key=lambda count: abs(count.zombies - len(walk.zombies)))


def _walk(host: Host, census: Census | Gap) -> Walk:
    """The best tier this host allows; without any, what plain files tell, and why."""
    walk = read_zombie_walk(host)
    if isinstance(walk, Walk):
        return walk
    if isinstance(census, Gap):
        raise ObservationError("cannot see any zombie", f"{walk.reason}; {census.reason}", walk.hint or census.hint)
    totals = ("by_pin", "by_maker", "freed_by", "freed_together")
    untold = [walk.about(fact) for fact in ("zombies", *(f"totals.{part}" for part in totals), "tier")]
    seen = Walk(Tier.RESIDUAL, (), derive_population(census).live, tuple(untold))
    return seen._replace(page_bytes=page_bytes_of(host))


def _settled(host: Host, walk: Walk, population: Population | None) -> tuple[Walk, Population | None]:
    """Without those that were merely on their way: nothing was seen to hold them, and a second later they were gone."""
    fleeting = {zombie.serial for zombie in walk.zombies if _is_fleeting(zombie)}
    if not fleeting:
        return walk, population
    host.wait(SECONDS_OF_AN_ORDINARY_DEATH)
    later = read_zombie_serials(host)
    if isinstance(later, Gap):
        return walk, population
    gone = fleeting - later
    kept = tuple(zombie for zombie in walk.zombies if zombie.serial not in gone)
    counted = population and population._replace(counted=population.counted - len(gone))
    return walk._replace(zombies=kept), counted


def _is_fleeting(zombie: Zombie) -> bool:
    if zombie.references.lru_folios:
        return False
    return not any(pin.pages or pin.path_in_fs or zombie.references.children for pin in zombie.pins)


def _explained(host: Host, hierarchy: Hierarchy, walk: Walk) -> tuple[Walk, tuple[Gap, ...]]:
    """By the kernel's own lists, or by /proc where they cannot be walked; not at all where pages explain every reference."""
    if not any(map(is_unexplained, walk.zombies)):
        return walk, ()
    from zombiescope.probes.readers.zombie_holders import read_zombie_holders  # noqa: PLC0415

    found = read_zombie_holders(host)
    if isinstance(found, Gap):
        from zombiescope.analysis.held_beside import holders_beside_pages  # noqa: PLC0415
        from zombiescope.pipeline.pages import look_beside_pages  # noqa: PLC0415

        holders, gaps = holders_beside_pages(walk.zombies, look_beside_pages(host, hierarchy, ())), (found,)
        return walk._replace(zombies=explain(walk.zombies, holders)), gaps
    return walk._replace(zombies=explain(walk.zombies, found.holders)), found.gaps


def _with_file_holders(host: Host, walk: Walk) -> tuple[Walk, tuple[Gap, ...]]:
    wanted = files_in_question(walk.zombies)
    if not wanted:
        return walk, ()
    from zombiescope.probes.readers.shared_memory_holders import read_shared_memory_holders  # noqa: PLC0415

    found = read_shared_memory_holders(host, wanted)
    if isinstance(found, Gap):
        return walk, (found,)
    return (walk._replace(zombies=with_file_holders(walk.zombies, found)) if found else walk), ()


def _gaps(census: Census | Gap, residuals: Residuals | Gap) -> tuple[Gap, ...]:
    gaps = []
    if isinstance(census, Gap):
        gaps.append(census.about("reconciliation.counted_minus_live"))
    if isinstance(residuals, Gap):
        gaps.append(residuals.about("reconciliation.residual_pages"))
    elif residuals.unsplit:
        why = "cgroup v2 does not tell a parent's own pages from its zombies' at the root and where memory is not handed on"
        gaps.append(Gap("reconciliation.residual_pages", why))
    return tuple(gaps)
