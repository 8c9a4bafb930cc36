# SPDX-License-Identifier: Apache-2.0
"""One memory cgroup and one pin as a walker of kernel memory found them, before anybody gave them a meaning.

Both walkers (BPF, /proc/kcore) produce these; `assemble` makes facts of them. `css` values are join keys, nothing else.
"""

from __future__ import annotations

from enum import IntFlag
from typing import NamedTuple

CSS_ONLINE = 2
CSS_RELEASED = 4
CSS_DYING = 16


class PinFlag(IntFlag):
    ANON = 1
    INODE = 2
    BARE = 4
    """A folio of no file: truncated, or on its way to swap."""
    SWAPBACKED = 8
    PSEUDO = 16
    """Its name hangs below no directory: memfd, SysV segment, shared anonymous memory."""
    UNHASHED = 32
    """The name was unlinked."""
    ROOTED = 64
    """The path was followed up to the root of its file system."""
    WRITEBACK = 128
    CUT = 256


class RawMemcg(NamedTuple):
    """The fields from `refs` to `walked` are the zombie's shape: `memcg[SHAPE]`. Thousands of zombies share one."""

    css: int
    parent: int
    id: int
    serial: int
    peak: int
    oom_kills: int
    born: int
    """In jiffies; 0 is unknown."""
    psi_born: int
    """In nanoseconds of the scheduler's clock; 0 is unknown."""
    refs: int
    """-1 unless exact."""
    swap: int
    """Swap entries that carry its id; -1 where the kernel does not say."""
    tcp: int
    lru_anon: int
    lru_file: int
    unevictable: int
    shmem: int
    anon: int
    file: int
    bare: int
    folios: int
    walked: int
    flags: int
    level: int
    name: bytes
    pins: tuple[RawPin, ...]


SHAPE = slice(8, 20)


class RawPin(NamedTuple):
    css: int
    mapping: int
    inode: int
    device: int
    rdevice: int
    nlink: int
    flags: int
    pages: int
    folios: int
    dirty: int
    mapped: int
    names: bytes
    """Leaf first, each name ended by NUL."""
    fstype: bytes
    """Filled up with NUL."""


class Clock(NamedTuple):
    """The same moment on the kernel's clocks and on the wall."""

    jiffies: int
    monotonic_seconds: float
    wall_seconds: float


class RawWalk(NamedTuple):
    memcgs: list[RawMemcg]
    writeback: list[RawPin]
    clock: Clock
    is_v2: bool
    runs_nanoseconds: list[int]
    notes: list[str]
    """What went wrong on the way, in words for a gap."""
