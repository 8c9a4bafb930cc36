# SPDX-License-Identifier: Apache-2.0
"""Kernel memory that zombies hold beside their pages. An estimate: the kernel does not say.

Per zombie: slab for the cgroup, the memory cgroup, their statistics and per-node structures, and per-CPU statistics for every
possible CPU. Sizes read from BTF and measured on a 6.18 kernel (20,000 zombies, 2 CPUs, one node); other kernels differ by
some tens of percent.
"""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.facts.node import Shape

SLAB_BYTES = 14_000
SLAB_BYTES_PER_EXTRA_NODE = 1_500
PERCPU_BYTES = 1_500
PERCPU_BYTES_PER_NODE = 530


class KernelCost(NamedTuple):
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
