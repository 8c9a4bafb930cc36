# SPDX-License-Identifier: Apache-2.0
"""Dead cgroups' writeback structures and the inodes still on them: super block by super block, read from kernel memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from zombiescope.kernel.kcore import KernelMemory, UnreadableError
from zombiescope.kernel.kcore_files import FileNames
from zombiescope.kernel.kcore_layout import Layout
from zombiescope.kernel.raw import PinFlag, RawPin

_LISTS = ("wb.b_dirty", "wb.b_io", "wb.b_more_io", "wb.b_dirty_time", "wb.b_attached")
_MOST_SUPER_BLOCKS = 1 << 16
_MOST_WRITEBACKS = 1 << 20
_MOST_INODES = 8


def read_writeback(
    memory: KernelMemory, layout: Layout, files: FileNames, super_blocks: int | None, dead: Collection[int]
) -> list[RawPin]:
    if super_blocks is None or not layout.has("wb.css", "wb.node", "bdi.wbs"):
        return []
    found: dict[tuple[int, int, int], RawPin] = {}
    for bdi in {memory_bdi for memory_bdi in _devices(memory, layout, super_blocks) if memory_bdi}:
        for link in _links(memory, bdi + layout.at["bdi.wbs"], _MOST_WRITEBACKS):
            try:
                _take(memory, layout, files, link - layout.at["wb.node"], dead, found)
            except UnreadableError:
                continue
    return list(found.values())


def _devices(memory: KernelMemory, layout: Layout, super_blocks: int) -> Iterator[int]:
    for link in _links(memory, super_blocks, _MOST_SUPER_BLOCKS):
        try:
            yield memory.pointer(link - layout.at["sb.list"] + layout.at["sb.bdi"])
        except UnreadableError:
            continue


def _links(memory: KernelMemory, head: int, most: int) -> Iterator[int]:
    """The entries of a list, as far as it can be followed."""
    try:
        link = memory.pointer(head)
        for _ in range(most):
            if link in (head, 0):
                return
            yield link
            link = memory.pointer(link)
    except UnreadableError:
        return


def _take(
    memory: KernelMemory,
    layout: Layout,
    files: FileNames,
    wb: int,
    dead: Collection[int],
    found: dict[tuple[int, int, int], RawPin],
) -> None:
    css = memory.pointer(wb + layout.at["wb.css"])
    if css not in dead:
        return
    flags, before = int(PinFlag.INODE | PinFlag.WRITEBACK), len(found)
    for name in _LISTS:
        if name not in layout.at:
            continue
        for link in _links(memory, wb + layout.at[name], _MOST_INODES):
            inode = link - layout.at["inode.io"]
            file = files.of(inode)
            pin = (file.inode, file.device, file.rdevice, file.nlink, flags | file.flags)
            found[css, file.device, file.inode] = RawPin(css, inode, *pin, 0, 0, 0, 0, file.names, file.fstype)
    if len(found) == before:
        found[css, 0, 0] = RawPin(css, wb, 0, 0, 0, 0, int(PinFlag.WRITEBACK), 0, 0, 0, 0, b"", b"")
