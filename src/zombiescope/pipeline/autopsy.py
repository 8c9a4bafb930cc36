# SPDX-License-Identifier: Apache-2.0
"""Every zombie by the best tier this host allows, reconciled with the plain counts: `autopsy`."""

from __future__ import annotations

import json
import os
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from zombiescope import pipeline
from zombiescope.analysis.autopsy import (
    NOBODY,
    Autopsy,
    Body,
    Totals,
    derive_autopsy,
    derive_totals,
    names_of,
    with_pods,
)
from zombiescope.analysis.held import (
    explain,
    files_in_question,
    holders_beside_pages,
    is_unexplained,
    split_by_residual,
    with_file_holders,
)
from zombiescope.analysis.scan import Population, derive_population
from zombiescope.errors import ObservationError, UsageError
from zombiescope.facts.cgroups import Census, Hierarchy, Look, Residuals, Snapshot
from zombiescope.facts.gap import Gap
from zombiescope.facts.page_pins import (
    NOTHING_BESIDE,
    Beside,
    DeletedTasks,
    PageFreePins,
    PinnedFile,
)
from zombiescope.facts.plain import Clean, of_plain, to_plain
from zombiescope.facts.pods import KnownPods
from zombiescope.facts.zombies import Pin, Tier, Walk, Zombie
from zombiescope.host.access import Host
from zombiescope.host.page_size import page_bytes_of
from zombiescope.pipeline.mistyped import refuse_maker
from zombiescope.pipeline.opening import Progress
from zombiescope.probes.cgroups import read_memory_hierarchy
from zombiescope.probes.readers.cgroup_census import read_census, read_one_look
from zombiescope.probes.readers.holders import read_deleted_tasks, read_shared_memory_holders, read_socket_pins
from zombiescope.probes.readers.memcg_residual import read_residuals
from zombiescope.probes.readers.node import read_identity, read_shape
from zombiescope.probes.readers.page_pins import read_page_pins
from zombiescope.probes.readers.zombie_walk import read_zombie_holders, read_zombie_serials, read_zombie_walk


def look_beside_pages(host: Host, hierarchy: Hierarchy) -> PageFreePins:
    """Pins that hold no page, for every tier."""
    return PageFreePins(read_deleted_tasks(host, hierarchy), read_socket_pins(host, hierarchy))


SECONDS_OF_AN_ORDINARY_DEATH = 1.0


class Gathered(NamedTuple):
    taken_at: float
    hierarchy: Hierarchy
    census: Census | Gap
    walk: Walk
    population: Population | None
    """The count nearest to the walk."""
    residuals: Residuals | Gap
    beside: Beside
    gaps: tuple[Gap, ...]


def gather(host: Host, progress: Progress = lambda _: None) -> Gathered:
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
    return Gathered(taken_at, hierarchy, census, walk, population, residuals, beside, told)


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

    pins = read_page_pins(host, hierarchy, residuals, progress=progress)
    beside = look_beside_pages(host, hierarchy)
    if isinstance(pins, Gap):
        return walk, Beside((), beside), (pins.about("pinned_files"),)
    return walk._replace(tier=Tier.PAGES), Beside(pins.files, beside), pins.gaps


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
    found = read_zombie_holders(host)
    if isinstance(found, Gap):
        holders, gaps = holders_beside_pages(walk.zombies, look_beside_pages(host, hierarchy)), (found,)
        return walk._replace(zombies=explain(walk.zombies, holders)), gaps
    return walk._replace(zombies=explain(walk.zombies, found.holders)), found.gaps


def _with_file_holders(host: Host, walk: Walk) -> tuple[Walk, tuple[Gap, ...]]:
    wanted = files_in_question(walk.zombies)
    if not wanted:
        return walk, ()
    found = read_shared_memory_holders(host, wanted)
    if isinstance(found, Gap):
        return walk, (found,)
    return (walk._replace(zombies=with_file_holders(walk.zombies, found)) if found else walk), ()


def _gaps(census: Census | Gap, residuals: Residuals | Gap) -> tuple[Gap, ...]:
    gaps = [census.about("reconciliation.counted_minus_live")] if isinstance(census, Gap) else []
    if isinstance(residuals, Gap):
        gaps.append(residuals.about("reconciliation.residual_pages"))
    elif residuals.unsplit:
        why = "cgroup v2 does not tell a parent's own pages from its zombies' at the root and where memory is not handed on"
        gaps.append(Gap("reconciliation.residual_pages", why))
    return tuple(gaps)


class Dissected(NamedTuple):
    snapshot: Snapshot
    walk: Walk
    autopsy: Autopsy
    gaps: tuple[Gap, ...]
    beside: Beside


class Choice(NamedTuple):
    """Which zombies are wanted."""

    maker: str | None = None
    """A glob over makers."""
    older_than_seconds: float | None = None


ALL = Choice()
_UNUSED = Gap("cost", "an autopsy does not measure costs")


def dissect(
    host: Host, choice: Choice = ALL, progress: Progress = lambda _: None, state: bytes | None = None
) -> Dissected:
    """One call returns the records. `state`: an agent's folder, with names of pods that are gone; without it the configured one."""
    seen = gather(host, progress) if host.is_live else _recalled(host, progress)
    counts = (seen.hierarchy, seen.census, seen.residuals)
    snapshot = Snapshot(seen.taken_at, host.label, read_identity(host), read_shape(host), *counts, *(_UNUSED,) * 2)
    residuals = seen.residuals if isinstance(seen.residuals, Residuals) else None
    known = names_for(host, seen.walk, state)
    autopsy = derive_autopsy(seen.walk, seen.population, residuals, known)
    refuse_maker(choice.maker, autopsy.bodies, known=known)
    wanted = with_pods(chosen(autopsy, choice, seen.taken_at, known), known)
    gaps = (*seen.gaps, *_gaps_of(autopsy, wanted, choice))
    return Dissected(snapshot, seen.walk, wanted, gaps, seen.beside)


def names_for(host: Host, walk: Walk, state: bytes | None = None) -> KnownPods:
    """Of the pods that left zombies; most hosts have none."""
    if not any(b"pod" in zombie.path for zombie in walk.zombies):
        return NOBODY

    return pipeline.asking_pods.read_known_pods(host, None if state is None else os.fsdecode(state))


def _gaps_of(every: Autopsy, wanted: Autopsy, choice: Choice) -> list[Gap]:
    """What a choice could not decide."""
    if wanted.totals.zombies is None:
        why = f"{every.totals.zombies:,} zombies could not be seen one by one: how many of them match is not known"
        hint = "run as root, where BPF or /proc/kcore may be read"
        return [Gap(f"totals.{name}", why, hint) for name in ("zombies", "pages")]
    ageless = sum(body.zombie.born_at is None for body in every.bodies)
    if choice.older_than_seconds is None or not ageless:
        return []
    return [Gap("zombies[].born_at", f"{ageless:,} zombies whose birth is not known were left out")]


def _recalled(host: Host, progress: Progress) -> Gathered:
    """What a recording kept of an autopsy; where it kept none, what its plain files tell, and why there is no more."""
    kept = recall(host)
    if isinstance(kept, Gathered):
        return kept
    seen = gather(host, progress)
    if not kept:
        return seen
    return seen._replace(
        walk=seen.walk._replace(gaps=(Gap("zombies", kept, "run zombiescope on the host itself"), *seen.walk.gaps))
    )


def chosen(autopsy: Autopsy, choice: Choice, now: float, known: KnownPods = NOBODY) -> Autopsy:
    """Of all zombies those that are wanted."""
    if choice == ALL:
        return autopsy
    if not autopsy.bodies and autopsy.totals.zombies:
        return autopsy._replace(totals=Totals(None, None, {}, (), {}))
    bodies = tuple(body for body in autopsy.bodies if _is_wanted(body, choice, now, known))
    return autopsy._replace(bodies=bodies, totals=derive_totals(bodies))


def _is_wanted(body: Body, choice: Choice, now: float, known: KnownPods) -> bool:
    if choice.maker is not None and not any(fnmatchcase(name, choice.maker) for name in names_of(body, known)):
        return False
    if choice.older_than_seconds is None:
        return True
    return body.zombie.born_at is not None and now - body.zombie.born_at >= choice.older_than_seconds


NAME = "autopsy"
MOST_TEXT = 64 << 20
_NAMELESS = b""


class _Kept(NamedTuple):
    """What was gathered, with every type where it can be looked up."""

    taken_at: float
    hierarchy: Hierarchy
    census: Census | Gap
    walk: Walk
    population: Population | None
    residuals: Residuals | Gap
    files: tuple[PinnedFile, ...]
    pins: PageFreePins | None
    gaps: tuple[Gap, ...]


def keep(evidence: Gathered, clean: Clean, most: int = MOST_TEXT) -> dict[str, Any]:
    """Plain JSON for a recording."""
    kept = {"evidence": to_plain(_without_names(evidence), _Kept, clean)}
    size = len(json.dumps(kept))
    if size > most:
        return {"why": f"the autopsy is {size >> 20} MiB as text, and a recording keeps {most >> 20} MiB"}
    return kept


def recall(host: Host) -> Gathered | str:
    """What a recording kept, or why it kept nothing; without a word where nobody looked."""
    outcome = host.experiment(NAME, dict)
    if not outcome or "evidence" not in outcome:
        return str((outcome or {}).get("why", ""))
    try:
        kept = of_plain(outcome["evidence"], _Kept)
    except ValueError as error:
        why = f"its autopsy is not as one is kept ({error})"
        raise UsageError(f"cannot use {host.label}", why, "make a new one: zombiescope record FILE") from error
    assert isinstance(kept, _Kept)
    taken_at, hierarchy, census, walk, population, residuals, files, pins, gaps = kept
    return Gathered(taken_at, hierarchy, census, walk, population, residuals, Beside(files, pins), gaps)


def _without_names(evidence: Gathered) -> _Kept:
    taken_at, hierarchy, census, walk, population, residuals, beside, gaps = evidence
    if isinstance(census, Census):
        census = census._replace(tree=None)
    files = tuple(file._replace(pin=_unnamed(file.pin)) for file in beside.files)
    pins = beside.pins and _page_free(beside.pins)
    return _Kept(taken_at, hierarchy, census, _unnamed_walk(walk), population, residuals, files, pins, gaps)


def _unnamed_walk(walk: Walk) -> Walk:
    zombies = [
        zombie._replace(pins=tuple(map(_unnamed, zombie.pins)))
        if any(pin.holder is not None for pin in zombie.pins)
        else zombie
        for zombie in walk.zombies
    ]
    return walk._replace(zombies=tuple(zombies))


def _unnamed(pin: Pin) -> Pin:
    return pin if pin.holder is None else pin._replace(holder=pin.holder._replace(name=_NAMELESS, cgroup=None))


def _page_free(pins: PageFreePins) -> PageFreePins:
    tasks = pins.tasks
    if isinstance(tasks, DeletedTasks):
        tasks = tasks._replace(tasks=tuple(task._replace(name=_NAMELESS) for task in tasks.tasks))
    return pins._replace(tasks=tasks)
