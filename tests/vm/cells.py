# SPDX-License-Identifier: Apache-2.0
"""The matrix: which kernel, which init, which cgroup hierarchy, which memory variant. One cell is one machine.

`required` cells run in CI by `make test-vm`; all of them by `make test-vm-all`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

WHICH_VARIABLE = "ZOMBIESCOPE_VM_WHICH"
"""In a machine: `required` (what CI tells there) or `all`."""


class Init(StrEnum):
    SYSTEMD = "systemd"
    MINI = "mini"


class Hierarchy(StrEnum):
    V2 = "v2"
    V1 = "v1"
    HYBRID = "hybrid"


@dataclass(frozen=True, slots=True)
class Cell:
    name: str
    kernel: str
    init: Init = Init.MINI
    hierarchy: Hierarchy = Hierarchy.V2
    image: str = "bookworm"
    swap_megabytes: int = 0
    numa_nodes: int = 1
    mglru: bool = False
    required: bool = False
    memory_megabytes: int = 1024
    cpus: int = 2
    """More than two only on demand (`tests.vm.run --cpus`): one thread emulates them all."""

    @property
    def memory_is_v1(self) -> bool:
        """Where memory is counted: a hybrid boot has it on v1 as well."""
        return self.hierarchy is not Hierarchy.V2

    @property
    def reparents(self) -> bool:
        """Whether a dying memory cgroup hands its pages to its parent: from 7.1 on, so that no page keeps it."""
        return self.kernel not in {"5.10", "6.1", "6.12", "6.18", "7.0"}


@dataclass(frozen=True, slots=True)
class Unbootable:
    """A variant that cannot be had, with the reason: named, never silently absent."""

    name: str
    reason: str


CELLS = (
    Cell("5.10-v2", "5.10", required=True),
    Cell("6.1-v2", "6.1", init=Init.SYSTEMD, swap_megabytes=256, required=True),
    Cell("6.1-v1", "6.1", init=Init.SYSTEMD, hierarchy=Hierarchy.V1, required=True),
    Cell("6.1-hybrid", "6.1", init=Init.SYSTEMD, hierarchy=Hierarchy.HYBRID, required=True),
    Cell("6.12-v2-numa", "6.12", init=Init.SYSTEMD, numa_nodes=2, mglru=True, required=True),
    Cell("7.2-v2", "7.2", swap_megabytes=256, required=True),
    Cell("5.10-v1", "5.10", hierarchy=Hierarchy.V1),
    Cell("5.10-v2-systemd", "5.10", init=Init.SYSTEMD, swap_megabytes=256),
    Cell("6.1-v2-mini", "6.1"),
    Cell("6.12-v2-trixie", "6.12", init=Init.SYSTEMD, image="trixie", swap_megabytes=256),
    Cell("6.18-v2", "6.18", init=Init.SYSTEMD),
    Cell("7.0-v2", "7.0", init=Init.SYSTEMD, mglru=True, swap_megabytes=256),
    Cell("7.1-v2", "7.1", swap_megabytes=256),
    Cell("7.2-v2-trixie", "7.2", init=Init.SYSTEMD, image="trixie", numa_nodes=2),
)

UNBOOTABLE = (
    Unbootable(
        "6.12-v1 and newer",
        "Debian's kernels from 6.12 on are built without CONFIG_MEMCG_V1: no memory controller on v1",
    ),
    Unbootable("4.19 and older", "no suite that Debian's mirrors still serve has such a kernel"),
)


def cell_named(name: str) -> Cell:
    for cell in CELLS:
        if cell.name == name:
            return cell
    raise KeyError(f"no cell {name}; there are {', '.join(cell.name for cell in CELLS)}")
