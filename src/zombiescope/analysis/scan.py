# SPDX-License-Identifier: Apache-2.0
"""A snapshot in numbers: the population, what lies below which live parent, and what it costs. No judgement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from zombiescope.analysis.census import Population, derive_population
from zombiescope.analysis.cost import KernelCost, derive_kernel_cost
from zombiescope.facts.cgroups import EmptyDirectories, MemoryUse, Residuals, Snapshot, Sweep
from zombiescope.facts.gap import Gap

_NO_BYTES = Gap(
    "parents",
    "no live cgroup shows bytes of dead ones: what keeps these zombies is not pages, or too few to be seen",
    "sudo zombiescope scan --exact",
)


class ParentShare(NamedTuple):
    """A nearest live ancestor of zombies."""

    path: bytes
    zombies: int | None
    use: MemoryUse | None


class Scan(NamedTuple):
    population: Population | Gap
    parents: tuple[ParentShare, ...] | Gap
    kernel_cost: KernelCost | Gap
    sweep: Sweep | Gap
    empty_directories: EmptyDirectories | Gap


def derive_scan(snapshot: Snapshot) -> Scan:
    census = snapshot.census
    if isinstance(census, Gap):
        return Scan(census, census, census, snapshot.sweep, snapshot.empty_directories)
    population = derive_population(census)
    cost = derive_kernel_cost(population.zombies, snapshot.shape)
    return Scan(
        population,
        _parents(population, census.parents, snapshot.residuals),
        cost or next(iter(snapshot.shape.gaps), Gap("cost.kernel_bytes", "the number of CPUs is not known")),
        snapshot.sweep,
        snapshot.empty_directories,
    )


def _parents(
    population: Population, counts: Mapping[bytes, int] | None, residuals: Residuals | Gap
) -> tuple[ParentShare, ...] | Gap:
    """By the counts where the kernel gives them (v2), else by the bytes. A parent whose bytes are unknown is listed too."""
    if population.zombies == 0:
        return ()
    uses = residuals.by_parent if isinstance(residuals, Residuals) else {}
    if counts is not None:
        settled = _within(population.zombies, counts)
        shares = [ParentShare(path, zombies, uses.get(path)) for path, zombies in settled.items()]
        return tuple(sorted(shares, key=_largest_first))
    if isinstance(residuals, Gap):
        return residuals
    shares = [ParentShare(path, None, uses.get(path)) for path in {*uses, *residuals.garbled}]
    return tuple(sorted(shares, key=_largest_first)) or _NO_BYTES


def _within(zombies: int, counts: Mapping[bytes, int]) -> Mapping[bytes, int]:
    """No more than the total, which is read before them: who died in between is on its way and left out, where most die."""
    over = sum(counts.values()) - zombies
    if over <= 0:
        return counts
    found = dict(counts)
    for path in sorted(found, key=lambda path: (-found[path], path)):
        found[path], over = max(found[path] - over, 0), max(over - found[path], 0)
    return {path: count for path, count in found.items() if count}


def _largest_first(share: ParentShare) -> tuple[int, int, bytes]:
    return -(share.zombies or 0), -(share.use.bytes_held if share.use else 0), share.path
