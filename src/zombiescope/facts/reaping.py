# SPDX-License-Identifier: Apache-2.0
"""What a reaper may spend, what it asks for, and what came of it."""

from collections.abc import Mapping
from typing import NamedTuple

from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.gap import Gap
from zombiescope.facts.remedies import Remedy
from zombiescope.facts.zombies import HeldBy


class SwapArea(NamedTuple):
    device: bytes
    used_bytes: int


class Levers(NamedTuple):
    hierarchy: Hierarchy | None = None
    control_files: frozenset[bytes] = frozenset()
    """Of the parents of zombies, those reclaim files that exist: `/sys/fs/cgroup/system.slice/memory.reclaim`."""
    untold: frozenset[bytes] = frozenset()
    """Parents of which it is not known whether they have one: an older recording did not ask."""
    node_reclaim: tuple[bytes, ...] = ()
    """One file a NUMA node, from 6.17 on."""
    vendor_reaper: bytes | None = None
    """A file of a vendor's kernel that frees zombies when 1 is written to it."""
    swaps: tuple[SwapArea, ...] = ()
    available_bytes: int | None = None
    hands_pages_on: bool = False
    """This kernel gives a dead cgroup's pages to its parent: no page keeps a zombie."""
    has_systemd: bool = False
    """systemd runs this machine and can be asked."""
    enabling_links: Mapping[str, tuple[bytes, ...]] = {}
    """By unit: the links below /etc that start it or give it another name."""
    segments: Mapping[int, int] = {}
    """SysV segments by id, with the number of processes attached."""
    files_in_use: Mapping[bytes, HeldBy] = {}
    """Files in memory that a live process has open or mapped, by path, with the process."""
    layers: Mapping[bytes, bool] = {}
    """Layers that hold zombies of pods, by folder: whether it is a container's own, which goes with it, or an image's. Those that
    could not be looked at are not among them."""
    volumes: Mapping[str, bytes] = {}
    """File systems of pods alone, such as emptyDirs in memory, by device: where the machine has them mounted."""
    gaps: tuple[Gap, ...] = ()


class ReapBudget(NamedTuple):
    """What a reaper may cost."""

    leave: int = 100
    """Zombies that are nobody's trouble: below this stock nothing is done."""
    pages_per_second: float = 2_000.0
    core_share: float = 0.005
    memory_pressure: float = 10.0
    """Percent of the last ten seconds in which some task waited for memory (PSI some avg10)."""
    io_pressure: float = 20.0
    refaults_per_second: float = 200.0
    """Pages read again a second, above what was usual before."""
    interval_seconds: float = 15.0
    longest_seconds: float = 900.0
    """Between two walks where nothing could be evicted."""


class Health(NamedTuple):
    """Of the whole machine; None where the kernel does not tell."""

    at: float
    """Seconds on a clock that only goes forward."""
    memory_pressure: float | None
    io_pressure: float | None
    refaults: int | None
    """Pages read again since boot."""


class EvictionOrder(NamedTuple):
    lever: Remedy
    """DROP_FILE, posix_fadvise(DONTNEED) on one file: its clean unmapped pages, nobody else's; or RECLAIM_PARENT, v2's
    memory.reclaim on the nearest live parent: the pages of live siblings are asked for too."""
    target: bytes
    """A file that can be opened, or a live cgroup."""
    parent: bytes
    """Nearest live parent of the zombies that it is about."""
    pages: int
    """Theirs."""
    zombies: frozenset[int]
    """Serials of those that it helps to free."""
    device: str | None = None
    inode: int | None = None


class Evicted(NamedTuple):
    order: EvictionOrder
    pages: int | None
    """Evicted; None where the kernel does not tell."""
    refused: str | None = None
    """Why nothing was done."""
