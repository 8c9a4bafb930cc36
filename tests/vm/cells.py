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
    platform: str = "amd64"
    """Architecture and page size: a key of PLATFORMS in recipe.py."""
    init: Init = Init.MINI
    hierarchy: Hierarchy = Hierarchy.V2
    image: str = "bookworm"
    swap_megabytes: int = 0
    numa_nodes: int = 1
    mglru: bool = False
    selinux: bool = False
    """Enforcing, with Debian's policy: the image must have one."""
    required: bool = False
    memory_megabytes: int = 1024
    cpus: int = 2
    """More than two only on demand (`tests.vm.run --cpus`): one thread emulates them all."""
    forwarded: tuple[tuple[int, int], ...] = ()
    """Ports of this host's loopback, each led to a port in the machine by a network card of its own; none: no card. On demand."""

    @property
    def kernel_part(self) -> str:
        """Under which name the kernel is kept."""
        return self.kernel if self.platform == "amd64" else f"{self.kernel}-{self.platform}"

    @property
    def memory_is_v1(self) -> bool:
        """Where memory is counted: a hybrid boot has it on v1 as well."""
        return self.hierarchy is not Hierarchy.V2

    @property
    def reparents(self) -> bool:
        """Whether a dying memory cgroup hands its pages to its parent: from 7.1 on, so that no page keeps it."""
        return self.kernel not in {"5.10", "6.1", "6.12", "6.18", "7.0"}


@dataclass(frozen=True, slots=True)
class Untried:
    """A variant that no machine has, with the reason: named, never silently absent."""

    name: str
    reason: str


CELLS = (
    Cell("5.10-v2", "5.10", required=True),
    Cell("6.1-v2", "6.1", init=Init.SYSTEMD, swap_megabytes=256, required=True),
    Cell("6.1-v1", "6.1", init=Init.SYSTEMD, hierarchy=Hierarchy.V1, required=True),
    Cell("6.1-hybrid", "6.1", init=Init.SYSTEMD, hierarchy=Hierarchy.HYBRID),
    Cell("6.12-v2-numa", "6.12", init=Init.SYSTEMD, numa_nodes=2, mglru=True, required=True),
    Cell("7.2-v2", "7.2", swap_megabytes=256, required=True),
    Cell("6.12-arm64", "6.12", platform="arm64", image="bookworm-arm64", required=True),
    Cell("6.1-arm64", "6.1", platform="arm64", image="bookworm-arm64", init=Init.SYSTEMD),
    Cell("6.12-arm64-16k", "6.12", platform="arm64-16k", image="bookworm-arm64"),
    Cell("5.10-v1", "5.10", hierarchy=Hierarchy.V1),
    Cell("5.10-v2-systemd", "5.10", init=Init.SYSTEMD, swap_megabytes=256),
    Cell("6.1-v2-mini", "6.1"),
    Cell("6.12-v2-trixie", "6.12", init=Init.SYSTEMD, image="trixie", swap_megabytes=256),
    Cell("6.18-v2", "6.18", init=Init.SYSTEMD),
    Cell("7.0-v2", "7.0", init=Init.SYSTEMD, mglru=True, swap_megabytes=256),
    Cell("7.1-v2", "7.1", swap_megabytes=256),
    Cell("6.1-selinux", "6.1", init=Init.SYSTEMD, image="bookworm-selinux", selinux=True),
    Cell("7.2-v2-trixie", "7.2", init=Init.SYSTEMD, image="trixie", numa_nodes=2),
)

UNTRIED = (
    Untried(
        "6.12-v1 and newer",
        "Debian's kernels from 6.12 on are built without CONFIG_MEMCG_V1: no memory controller on v1",
    ),
    Untried("4.19, 5.4 and other kernels before 5.10", "no suite that Debian's mirrors still serve has one"),
    Untried("a kernel without BTF", "all of Debian's have it; `tests/strange` hides it and refuses BPF instead"),
    Untried("arm64 with pages of 64 KiB", "Debian builds no such kernel; unit tests give the figures of one"),
    Untried(
        "real ARM hardware", "the arm64 machines are emulated: timing and memory ordering are not those of silicon"
    ),
    Untried("arm64 on cgroup v1 and before 6.1", "the hierarchy and the older kernels are told on x86-64"),
    Untried("WSL", "needs Windows"),
)


def cell_named(name: str) -> Cell:
    for cell in CELLS:
        if cell.name == name:
            return cell
    raise KeyError(f"no cell {name}; there are {', '.join(cell.name for cell in CELLS)}")
