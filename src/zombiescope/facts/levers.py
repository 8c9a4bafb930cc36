# SPDX-License-Identifier: Apache-2.0
"""What a machine offers to whoever wants to change something: which control files are there, swap, segments, systemd.
Presence, never a version."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.gap import Gap
from zombiescope.facts.zombies import HeldBy

_NONE: Mapping[str, tuple[bytes, ...]] = MappingProxyType({})
_NO_SEGMENTS: Mapping[int, int] = MappingProxyType({})
_NOT_IN_USE: Mapping[bytes, HeldBy] = MappingProxyType({})


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
    enabling_links: Mapping[str, tuple[bytes, ...]] = _NONE
    """By unit: the links below /etc that start it or give it another name."""
    segments: Mapping[int, int] = _NO_SEGMENTS
    """SysV segments by id, with the number of processes attached."""
    files_in_use: Mapping[bytes, HeldBy] = _NOT_IN_USE
    """Files in memory that a live process has open or mapped, by path, with the process."""
    gaps: tuple[Gap, ...] = ()
