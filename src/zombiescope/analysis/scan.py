# SPDX-License-Identifier: Apache-2.0
"""A snapshot in numbers: the population, what lies below which live parent, and what it costs. No judgement."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from zombiescope.facts.cgroups import (
    Census,
    CountSource,
    EmptyDirectories,
    MemoryUse,
    Residuals,
    Shape,
    Snapshot,
    Sweep,
)
from zombiescope.facts.gap import Gap

if TYPE_CHECKING:  # a plain scan has neither
    from zombiescope.facts.reclaim import ReclaimSeen

SLAB_BYTES = 14_000
SLAB_BYTES_PER_EXTRA_NODE = 1_500
PERCPU_BYTES = 1_500
PERCPU_BYTES_PER_NODE = 530


class KernelCost(NamedTuple):
    """Kernel memory that zombies hold beside their pages. An estimate: the kernel does not say.

    Per zombie: slab for the cgroup, the memory cgroup, their statistics and per-node structures, and per-CPU statistics for every
    possible CPU. Sizes read from BTF and measured on a 6.18 kernel (20,000 zombies, 2 CPUs, one node); other kernels differ by
    some tens of percent."""

    zombies: int
    cpus: int
    nodes: int

    @property
    def bytes_per_zombie(self) -> int:
        slab = SLAB_BYTES + SLAB_BYTES_PER_EXTRA_NODE * (self.nodes - 1)
        return slab + self.cpus * (PERCPU_BYTES + PERCPU_BYTES_PER_NODE * self.nodes)

    @property
    def total_bytes(self) -> int:
        return self.zombies * self.bytes_per_zombie


def derive_kernel_cost(zombies: int, shape: Shape) -> KernelCost | None:
    if shape.possible_cpus is None or shape.possible_nodes is None:
        return None
    return KernelCost(zombies, shape.possible_cpus, shape.possible_nodes)


def memory_mark(memory_bytes: int, share: float, cpus: int, nodes: int) -> float:
    """How many zombies hold so large a share of the machine's memory."""
    return memory_bytes * share / KernelCost(1, cpus, nodes).bytes_per_zombie


class Population(NamedTuple):
    counted: int
    live: int
    source: CountSource

    @property
    def zombies(self) -> int:
        return self.counted - self.live

    @property
    def ratio(self) -> float:
        """Counted for each live one; the root is always live, so there is at least one."""
        return self.counted / max(self.live, 1)


def derive_population(census: Census) -> Population:
    """The look with the fewest zombies: what was gone in another look was an ordinary death on its way."""
    look = min(census.looks, key=lambda look: look.zombies)
    return Population(look.counted, look.live, census.source)


RECLAIM_FACT = "cost.reclaim_pass_seconds"
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
        shares = [
            ParentShare(path, zombies, uses.get(path)) for path, zombies in _within(population.zombies, counts).items()
        ]
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


NOT_WATCHED = Gap(
    RECLAIM_FACT,
    "a scan does not wait for reclaim to run",
    "zombiescope scan --watch 10, as root; the agent always watches",
)


class ReclaimPass(NamedTuple):
    seconds: float
    """The mean of those that were seen."""
    at: float
    """When the last look ended."""
    calls: int | None = None
    """None where the agent remembers their mean alone."""
    watched_seconds: float | None = None
    """None: by the agent, at that time."""


def derive_reclaim_pass(seen: "ReclaimSeen | Gap", at: float) -> ReclaimPass | Gap:
    """A window in which nobody reclaimed has no pass to tell of: not known, and not zero."""
    if isinstance(seen, Gap):
        return seen.about(RECLAIM_FACT)
    if not seen.calls:
        return Gap(
            RECLAIM_FACT, f"nobody had to reclaim in {seen.seconds:,.0f} s", "watch longer, or when memory is short"
        )
    return ReclaimPass(sum(kind.seconds for kind in seen.kinds) / seen.calls, at, seen.calls, seen.seconds)
