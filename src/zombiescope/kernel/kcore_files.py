# SPDX-License-Identifier: Apache-2.0
"""Names of files from kernel memory: inode, file system and the way up to its root. What cannot be followed is marked as cut."""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.kernel.kcore import KernelMemory, UnreadableError
from zombiescope.kernel.kcore_layout import Layout
from zombiescope.kernel.raw import PinFlag

_MOST_FOLDERS = 512


class FileName(NamedTuple):
    inode: int
    device: int
    rdevice: int
    nlink: int
    flags: int
    names: bytes
    fstype: bytes


class FileNames:
    """Remembers inodes by address for one walk: many zombies are pinned by the same library."""

    def __init__(self, memory: KernelMemory, layout: Layout) -> None:
        self._memory = memory
        self._at = layout.at
        self._known: dict[int, FileName] = {}

    def of(self, inode: int) -> FileName:
        found = self._known.get(inode)
        if found is None:
            found = self._known[inode] = self._read(inode)
        return found

    def _read(self, inode: int) -> FileName:
        memory, at = self._memory, self._at
        sb = memory.pointer(inode + at["inode.sb"])
        fstype = memory.text(memory.pointer(memory.pointer(sb + at["sb.type"]) + at["type.name"]), 16)
        alias = memory.pointer(inode + at["inode.dentry"])
        names, flags = (
            (b"", 0) if not alias else self._climb(alias - at["dentry.alias"], memory.pointer(sb + at["sb.root"]))
        )
        return FileName(
            memory.pointer(inode + at["inode.number"]),
            memory.number(sb + at["sb.device"]),
            memory.number(inode + at["inode.rdevice"]),
            memory.number(inode + at["inode.links"]),
            flags,
            names,
            fstype,
        )

    def _climb(self, dentry: int, top: int) -> tuple[bytes, int]:
        memory, at = self._memory, self._at
        names: list[bytes] = []
        try:
            flags = 0 if memory.pointer(dentry + at["dentry.hash"]) else int(PinFlag.UNHASHED)
            for _ in range(_MOST_FOLDERS):
                if dentry == top:
                    return b"".join(names), flags | PinFlag.ROOTED
                names.append(memory.text(memory.pointer(dentry + at["dentry.name"])) + b"\0")
                above = memory.pointer(dentry + at["dentry.parent"])
                if above == dentry:
                    return b"".join(names), flags | PinFlag.PSEUDO
                dentry = above
        except UnreadableError:
            flags = 0
        return b"".join(names), flags | PinFlag.CUT
