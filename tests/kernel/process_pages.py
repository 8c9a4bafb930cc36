# SPDX-License-Identifier: Apache-2.0
"""A second witness for private memory: a process's pages one by one, and the cgroup each is charged to, as /proc tells."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from mmap import PAGESIZE
from pathlib import Path
from typing import BinaryIO

_PAGE = PAGESIZE
_PRESENT, _FRAME = 1 << 63, (1 << 55) - 1
_ANONYMOUS = 1 << 12


def private_pages(process: int, inode: int) -> int:
    """How many anonymous pages of the process are charged to the cgroup of that inode, or to dead ones right below it."""
    frames = set(_frames(process))
    with open("/proc/kpagecgroup", "rb") as cgroups, open("/proc/kpageflags", "rb") as flags:
        return sum(_word(cgroups, frame) == inode and bool(_word(flags, frame) & _ANONYMOUS) for frame in frames)


def _word(table: BinaryIO, frame: int) -> int:
    table.seek(frame * 8)
    value: int = struct.unpack("Q", table.read(8))[0]
    return value


def _frames(process: int) -> Iterator[int]:
    with open(f"/proc/{process}/pagemap", "rb") as pagemap:
        for line in Path(f"/proc/{process}/maps").read_text().splitlines():
            start, end = (int(word, 16) for word in line.split()[0].split("-"))
            if line.endswith("[vsyscall]"):
                continue
            pagemap.seek(start // _PAGE * 8)
            words = pagemap.read((end - start) // _PAGE * 8)
            yield from (
                word & _FRAME for (word,) in struct.iter_unpack("Q", words) if word & _PRESENT and word & _FRAME
            )
