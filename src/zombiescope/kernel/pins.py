# SPDX-License-Identifier: Apache-2.0
"""What a folio, a swap entry, a child or a writeback structure is called when it keeps a zombie from being released."""

from __future__ import annotations

import re
from functools import lru_cache

from zombiescope.facts.zombies import Pin, PinKind, References
from zombiescope.kernel.mount_paths import MountPaths
from zombiescope.kernel.raw import PinFlag, RawMemcg, RawPin

_ANON, _INODE, _SWAPBACKED = int(PinFlag.ANON), int(PinFlag.INODE), int(PinFlag.SWAPBACKED)
_PSEUDO, _ROOTED, _UNHASHED = int(PinFlag.PSEUDO), int(PinFlag.ROOTED), int(PinFlag.UNHASHED)
_SYSV = re.compile(rb"SYSV[0-9a-f]{8}")
_MINOR_BITS = 20


def pins_of_folios(memcg: RawMemcg, mounts: MountPaths) -> tuple[Pin, ...]:
    found = memcg.pins if len(memcg.pins) < 2 else _merged(memcg.pins)
    attributed = sum(pin.pages for pin in found)
    sampled = not memcg.walked or attributed < memcg.lru_anon + memcg.lru_file
    return tuple(_pin(raw, mounts, sampled=sampled) for raw in found)


def pins_of_writeback(found: list[RawPin], mounts: MountPaths) -> tuple[Pin, ...]:
    return tuple(_pin(raw, mounts, sampled=True)._replace(kind=PinKind.WRITEBACK, pages=None) for raw in found)


def pins_without_folios(memcg: RawMemcg, references: References) -> tuple[Pin, ...]:
    """Unevictable pages are on no list that could be followed; the others hold no page at all."""
    if not (memcg.unevictable or memcg.swap > 0 or references.children or references.rest):
        return ()
    pins = []
    if memcg.unevictable:
        pins.append(_nameless(PinKind.UNEVICTABLE, memcg.unevictable))
    if memcg.swap > 0:
        pins.append(_nameless(PinKind.SWAP, memcg.swap))
    if references.children:
        pins.append(_nameless(PinKind.CHILD, None))
    if references.rest:
        pins.append(_nameless(PinKind.SOCKET if memcg.tcp else PinKind.OTHER, None))
    return tuple(pins)


def _nameless(kind: PinKind, pages: int | None) -> Pin:
    return Pin(kind, None, None, None, None, None, pages, sampled=False)


def _merged(pins: tuple[RawPin, ...]) -> list[RawPin]:
    """Folios of one file need not lie side by side on a list."""
    merged: dict[int, RawPin] = {}
    for pin in pins:
        before = merged.get(pin.mapping)
        if before is not None:
            pin = before._replace(
                pages=before.pages + pin.pages,
                folios=before.folios + pin.folios,
                dirty=before.dirty + pin.dirty,
                mapped=before.mapped + pin.mapped,
            )
        merged[pin.mapping] = pin
    return list(merged.values())


def _pin(raw: RawPin, mounts: MountPaths, *, sampled: bool) -> Pin:
    flags = raw.flags
    if not flags & _INODE:
        return Pin(PinKind.ANON if flags & _ANON else PinKind.OTHER, None, None, None, None, None, raw.pages, sampled)
    path_in_fs: bytes | None = None
    if flags & _ROOTED:
        path_in_fs = b"/" + b"/".join(raw.names[:-1].split(b"\0")[::-1])
    elif flags & _PSEUDO:
        path_in_fs = raw.names[:-1]
    fstype = _word(raw.fstype)
    # The block device's own cache: its inode says which device, its file system is the kernel's.
    device = _device(raw.rdevice if fstype == "bdev" else raw.device)
    path = None
    if path_in_fs is not None and raw.nlink and flags & (_ROOTED | _UNHASHED) == _ROOTED:
        path = mounts.find(device, path_in_fs)
    kind = _kind(flags, path_in_fs) if flags & _SWAPBACKED else PinKind.PAGE_CACHE
    return Pin(kind, path, path_in_fs, fstype, device, raw.inode, raw.pages, sampled)


def _kind(flags: int, name: bytes | None) -> PinKind:
    """Shared memory. Only the kernel's internal mount has names below no directory, so no user file passes for one."""
    if not flags & _PSEUDO or name is None:
        return PinKind.TMPFS
    if name.startswith(b"memfd:"):
        return PinKind.MEMFD
    if name == b"dev/zero":
        return PinKind.SHARED_ANON
    return PinKind.SYSV_SHM if _SYSV.fullmatch(name) else PinKind.OTHER


@lru_cache(maxsize=256)
def _device(number: int) -> str:
    return f"{number >> _MINOR_BITS}:{number & ((1 << _MINOR_BITS) - 1)}"


@lru_cache(maxsize=256)
def _word(name: bytes) -> str:
    return name.decode("ascii", "replace")
