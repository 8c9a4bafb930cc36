# SPDX-License-Identifier: Apache-2.0
"""Who owns the memory controller, and the census: what the kernel counts against what has a directory.

Paths are bytes, relative to the hierarchy, and begin with `/`; the hierarchy's own root is `b"/"`.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from zombiescope.facts.gap import Gap

PAGE_BYTES_UNTOLD = 4096
"""Of every x86-64 kernel and most others: for folders, and recordings made before the page size was kept."""


class Identity(NamedTuple):
    """Each field is known or is None with a gap in `gaps`."""

    name: str | None
    kernel: str | None
    boot_id: str | None
    uptime_seconds: float | None
    gaps: tuple[Gap, ...] = ()
    cluster: str = ""
    """The Kubernetes cluster that it belongs to, as somebody told us; empty where nobody did."""


class Shape(NamedTuple):
    """Possible CPUs and NUMA nodes: the kernel allocates per-CPU memory for every possible one, not only those online."""

    possible_cpus: int | None
    possible_nodes: int | None
    gaps: tuple[Gap, ...] = ()


class HierarchyVersion(StrEnum):
    V1 = "v1"
    V2 = "v2"


class CountSource(StrEnum):
    """Where the number of memory cgroups came from."""

    PROC_CGROUPS = "proc_cgroups"
    CGROUP_STAT_SUBSYS = "cgroup_stat_subsys"
    CGROUP_STAT_DESCENDANTS = "cgroup_stat_descendants"
    WALK = "walk"


class Hierarchy(NamedTuple):
    """The hierarchy that owns memory, and whether we see all of it."""

    version: HierarchyVersion
    mount_point: bytes
    is_hybrid: bool
    """Both versions are mounted; `version` says which one has memory."""
    partial_view: str
    """Why this view is not the whole hierarchy; empty when it is."""

    def place(self, path: bytes, file_name: bytes = b"") -> bytes:
        """Where a cgroup, or a file in it, is found on the machine."""
        where = self.mount_point.rstrip(b"/") + (path if path != b"/" else b"")
        return where + b"/" + file_name if file_name else where or b"/"


class Look(NamedTuple):
    """One look: memory cgroups the kernel counted and those with a directory, the root included."""

    counted: int
    live: int

    @property
    def zombies(self) -> int:
        return self.counted - self.live


class LiveTree(NamedTuple):
    """Every live directory, parents before children, and those without a directory inside."""

    paths: tuple[bytes, ...]
    leaves: tuple[bytes, ...]


class Census(NamedTuple):
    """Looks some time apart. An ordinary death is over within a second, so the lowest look counts."""

    source: CountSource
    looks: tuple[Look, ...]
    tree: LiveTree | None
    """The live directories of the last look; None where counting did not need them (v2)."""
    parents: Mapping[bytes, int] | None
    """Zombies by nearest live ancestor; None where plain files cannot tell (v1)."""
    gaps: tuple[Gap, ...] = ()


class MemoryUse(NamedTuple):
    """Bytes charged, by kind. `unevictable` overlaps the others: it is a property of pages counted there too."""

    file: int
    shmem: int
    anon: int
    swap: int | None
    """None where the kernel does not account swap."""
    unevictable: int

    @property
    def bytes_held(self) -> int:
        return self.file + self.shmem + self.anon + (self.swap or 0)


class Residuals(NamedTuple):
    """Bytes charged below each live directory that no live directory there accounts for: the zombies' bytes."""

    by_parent: Mapping[bytes, MemoryUse]
    unsplit: frozenset[bytes]
    """Parents whose own charge cannot be told from their zombies' (v2: the root, and any that keeps memory to itself)."""
    garbled: frozenset[bytes] = frozenset()
    """Parents of which a memory.stat, their own or a child's, was not in a form we know."""


class HandedOn(NamedTuple):
    """Memory that the dead left to live parents, on kernels that hand it on instead of keeping the dead for it."""

    happens: bool
    """This kernel does so."""
    by_parent: Mapping[bytes, MemoryUse]
    """Charged to a directory without a process of its own, and to none of its live children; only where there is some."""
    unsplit: int = 0
    """Directories with children whose own memory cannot be told from what was left to them, such as the root."""

    @property
    def total(self) -> int:
        return sum(use.bytes_held for use in self.by_parent.values())


class EmptyDirectories(NamedTuple):
    """Live leaf cgroups looked at for processes. `seen` is all of them or an even sample."""

    leaves: int
    seen: int
    empty: int
    examples: tuple[bytes, ...]

    @property
    def estimate(self) -> int:
        """Empty leaves in all, scaled up from the sample."""
        return self.empty if self.seen == self.leaves else round(self.leaves * self.empty / max(self.seen, 1))


class Sweep(NamedTuple):
    """One statistics sweep over the live tree, timed."""

    seconds: float
    """For all live cgroups: measured, or scaled up where `cgroups_read` is less than `cgroups`."""
    cgroups: int
    cgroups_read: int
    slowest_file: str
    slowest_seconds: float
    narrow_seconds: float | None = None
    """For the root and the cgroup of all pods alone, which is all that a kubelet reads that has the rest from its runtime; None
    where there are no pods."""


NOT_ASKED = Gap("handed_on", "only scan and doctor look for it", "zombiescope scan")


class Snapshot(NamedTuple):
    taken_at: float
    """Seconds since the epoch, by the clock of the machine that was looked at."""
    source: str
    """What was looked at, as a person calls it."""
    identity: Identity
    shape: Shape
    hierarchy: Hierarchy | Gap
    census: Census | Gap
    residuals: Residuals | Gap
    sweep: Sweep | Gap
    empty_directories: EmptyDirectories | Gap
    handed_on: HandedOn | Gap = NOT_ASKED
