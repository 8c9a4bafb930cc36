# SPDX-License-Identifier: Apache-2.0
"""One memory cgroup and one pin as a walker of kernel memory found them, before anybody gave them a meaning.

Both walkers (BPF, /proc/kcore) produce these; `assemble` makes facts of them. `css` values are join keys, nothing else.
"""

import os
import re
from enum import IntFlag
from functools import cache
from typing import NamedTuple

from zombiescope.facts.zombies import OWN_NUMBERS, Pin, PinKind, References
from zombiescope.kernel.mount_paths import MountPaths, device_name

CSS_ONLINE, CSS_RELEASED, CSS_DYING = 2, 4, 16


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
    pins: "tuple[RawPin, ...]"


SHAPE = slice(8, 20)


class RawPin(NamedTuple):
    css: int = 0
    mapping: int = 0
    inode: int = 0
    device: int = 0
    rdevice: int = 0
    nlink: int = 0
    flags: int = 0
    pages: int = 0
    folios: int = 0
    dirty: int = 0
    mapped: int = 0
    names: bytes = b""
    """Leaf first, each name ended by NUL."""
    fstype: bytes = b""
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


def leads_to(path: bytes, device: str, inode: int, fstype: str) -> bool:
    """A file with several names is found by one of them, which may have been moved or removed since."""
    try:
        seen = os.lstat(path)
    except (OSError, ValueError):
        return False
    return seen.st_ino == inode and (fstype in OWN_NUMBERS or device_name(seen.st_dev) == device)


_ANON, _INODE, _BARE, _SWAPBACKED = map(int, (PinFlag.ANON, PinFlag.INODE, PinFlag.BARE, PinFlag.SWAPBACKED))
_PSEUDO, _ROOTED, _UNHASHED = map(int, (PinFlag.PSEUDO, PinFlag.ROOTED, PinFlag.UNHASHED))
_SYSV = re.compile(rb"SYSV[0-9a-f]{8}")
_MINOR_BITS = 20
_TMPFS, _PAGE_CACHE, _make = PinKind.TMPFS, PinKind.PAGE_CACHE, tuple.__new__


class _Folder(NamedTuple):
    """What all files of one directory share."""

    device: str
    fstype: str
    in_fs: bytes
    """With a slash at its end."""
    opened: bytes | None
    """Where the directory is found in our mount namespace, with a slash at its end."""
    hides: bool
    """Something is mounted on one of its entries."""


class PinNamer:
    """Remembers directories: thousands of zombies are pinned by files of the same few."""

    def __init__(self, mounts: MountPaths) -> None:
        self._mounts = mounts
        self._folders: dict[tuple[int, bytes], _Folder] = {}
        # Of a file with several names the kernel knows one: looked at once, and not shown if it leads elsewhere.
        self._leads_to, self._block_device = cache(leads_to), cache(_block_device)

    def of_folios(self, memcg: RawMemcg) -> tuple[Pin, ...]:
        found = memcg.pins
        if memcg.bare and in_swap_cache(memcg):
            found = tuple(pin._replace(flags=pin.flags | _SWAPBACKED) if pin.flags & _BARE else pin for pin in found)
        if len(found) == 1:
            (only,) = found
            return (self._name(only, not memcg.walked or only.pages < memcg.lru_anon + memcg.lru_file),)
        merged = _merged(found)
        sampled = not memcg.walked or sum(pin.pages for pin in merged) < memcg.lru_anon + memcg.lru_file
        return tuple(self._name(pin, sampled) for pin in merged)

    def of_writeback(self, found: list[RawPin]) -> tuple[Pin, ...]:
        return tuple(
            self._name(raw, True)._replace(kind=PinKind.WRITEBACK, pages=None, mapped=None, dirty=None) for raw in found
        )

    def _name(self, raw: RawPin, sampled: bool) -> Pin:
        _, _, inode, device, _, nlink, flags, pages, _, dirty, mapped, names, _ = raw
        if not flags & _INODE:
            kind = PinKind.ANON if flags & _ANON else PinKind.SWAP if flags & _SWAPBACKED else PinKind.OTHER
            return Pin(kind, None, None, None, None, None, pages, sampled, mapped, dirty)
        leaf, _, above = names.partition(b"\0")
        number, fstype, in_fs, opened, hides = self._folders.get((device, above)) or self._folder(raw, above)
        path_in_fs = path = None
        kind = _TMPFS if flags & _SWAPBACKED else _PAGE_CACHE
        if flags & _ROOTED:
            path_in_fs = in_fs + leaf
            if opened is not None and nlink and not flags & _UNHASHED:
                path = opened + leaf
                if hides:
                    path = self._mounts.visible(path)
                if nlink > 1 and path and not self._leads_to(self._mounts.root + path, number, inode, fstype):
                    path = None
        elif flags & _PSEUDO:
            path_in_fs = b"/" + leaf  # as /proc/PID/maps writes it
            kind = kind_of_nameless(leaf) if flags & _SWAPBACKED else kind
        if fstype == "bdev":
            number = _device(raw.rdevice)
            path_in_fs = self._block_device(number)
        return _make(Pin, (kind, path, path_in_fs, fstype, number, inode, pages, sampled, mapped, dirty, None))

    def _folder(self, raw: RawPin, above: bytes) -> _Folder:
        names = above[:-1].split(b"\0") if above else []
        in_fs = b"".join(b"/" + name for name in reversed(names)) + b"/"
        device = _device(raw.device)
        opened = self._mounts.folder(device, in_fs.rstrip(b"/") or b"/")
        hides = opened is not None and self._mounts.hides_in(opened)
        fstype = raw.fstype.partition(b"\0")[0].decode("ascii", "replace")
        folder = _Folder(device, fstype, in_fs, None if opened is None else opened + b"/", hides)
        self._folders[raw.device, above] = folder
        return folder


def _block_device(number: str) -> bytes:
    """What lies on the device itself, such as a file system's own tables, is in no file: the device stands for it."""
    try:
        return b"/dev/" + os.readlink(os.fsencode(f"/sys/dev/block/{number}")).rpartition(b"/")[2]
    except OSError:
        return b"/dev/block/" + number.encode()


def in_swap_cache(memcg: RawMemcg) -> bool:
    """Whether its folios without a file are shared memory that was swapped out and is still in memory, too.

    Such a folio lies on a list of anonymous memory, has no mapping any more, and its swap entry carries the zombie's id. Reading
    it back gives the same folio, with its charge, to its file again: only reclaim takes this reference away.
    """
    return 0 < memcg.bare <= min(memcg.swap, memcg.lru_anon - memcg.anon - memcg.shmem)


def pins_without_folios(memcg: RawMemcg, references: References) -> tuple[Pin, ...]:
    """Unevictable pages are on no list that could be followed; the others hold no page at all."""
    held = (
        (memcg.unevictable, PinKind.UNEVICTABLE, memcg.unevictable),
        (memcg.swap > 0, PinKind.SWAP, memcg.swap),
        (references.children, PinKind.CHILD, None),
        (references.rest, PinKind.SOCKET if memcg.tcp else PinKind.OTHER, None),
    )
    return tuple(
        Pin(kind, None, None, None, None, None, pages, sampled=False) for is_there, kind, pages in held if is_there
    )


def without_explained(pins: tuple[Pin, ...], references: References, writeback: list[RawPin]) -> tuple[Pin, ...]:
    """Each writeback structure, one a device, holds a reference: what they explain is no longer something else."""
    structures = len({pin.device for pin in writeback})
    if references.rest is None or references.rest > structures:
        return pins
    return tuple(pin for pin in pins if pin.kind is not PinKind.OTHER or pin.pages is not None)


def _merged(pins: tuple[RawPin, ...]) -> list[RawPin]:
    """Folios of one file need not lie side by side on a list."""
    merged: dict[int, RawPin] = {}
    for pin in pins:
        if (before := merged.get(pin.mapping)) is not None:
            pin = before._replace(
                pages=before.pages + pin.pages,
                folios=before.folios + pin.folios,
                dirty=before.dirty + pin.dirty,
                mapped=before.mapped + pin.mapped,
            )
        merged[pin.mapping] = pin
    return list(merged.values())


def kind_of_nameless(name: bytes) -> PinKind:
    """Only the kernel's internal mount has names below no directory, so no user's file passes for one of these."""
    if name.startswith(b"memfd:"):
        return PinKind.MEMFD
    if _SYSV.fullmatch(name):
        return PinKind.SYSV_SHM
    return PinKind.SHARED_ANON if name == b"dev/zero" else PinKind.OTHER


def _device(number: int) -> str:
    return f"{number >> _MINOR_BITS}:{number & ((1 << _MINOR_BITS) - 1)}"
