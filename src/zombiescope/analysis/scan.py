# SPDX-License-Identifier: Apache-2.0
"""A snapshot in numbers: the population, what lies below which live parent, and what it costs. No judgement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from zombiescope.analysis.census import Population, derive_population
from zombiescope.analysis.cost import KernelCost, derive_kernel_cost
from zombiescope.facts.cgroups import EmptyDirectories, MemoryUse, Residuals, Sweep
from zombiescope.facts.gap import Gap
from zombiescope.facts.snapshot import Snapshot


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
        _parents(census.parents, snapshot.residuals),
        cost or next(iter(snapshot.shape.gaps), Gap("cost.kernel_bytes", "the number of CPUs is not known")),
        snapshot.sweep,
        snapshot.empty_directories,
    )


def _parents(counts: Mapping[bytes, int] | None, residuals: Residuals | Gap) -> tuple[ParentShare, ...] | Gap:
    zombies = None if counts is None else dict(counts)
    uses = residuals.by_parent if isinstance(residuals, Residuals) else None
    if zombies is None and uses is None:
        assert isinstance(residuals, Gap)
        return residuals
    shares = [
        ParentShare(path, zombies.get(path) if zombies is not None else None, _use(path, residuals))
        for path in (zombies if zombies is not None else uses or {})
    ]
    return tuple(sorted(shares, key=_largest_first))


def _use(path: bytes, residuals: Residuals | Gap) -> MemoryUse | None:
    if isinstance(residuals, Gap) or path in residuals.unsplit:
        return None
    return residuals.by_parent.get(path, MemoryUse(0, 0, 0, 0 if residuals.has_swap else None, 0))


def _largest_first(share: ParentShare) -> tuple[int, int, bytes]:
    return -(share.zombies or 0), -(share.use.bytes_held if share.use else 0), share.path
