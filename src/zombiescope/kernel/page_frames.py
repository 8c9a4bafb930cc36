# SPDX-License-Identifier: Apache-2.0
"""Physical pages by number: whose they are (/proc/kpagecgroup) and what they are (/proc/kpageflags).

kpagecgroup gives the inode of the closest live memory cgroup, 0 where nobody is charged. Kernels that know no folios give 0
for all but the first page of a huge one, so there the first page is asked.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from zombiescope.errors import ObservationError
from zombiescope.facts.names import shown
from zombiescope.host.page_size import PAGE_BYTES

WORD_BYTES = 8
HEAD, TAIL = 1 << 15, 1 << 16
_FRAME = (1 << 55) - 1
_PRESENT = 1 << 63
_NEAR = 512


def largest_order(page_bytes: int) -> int:
    """A huge page is as many pages as a page table has entries: 2 MiB of 4 KiB, 32 MiB of 16 KiB, 512 MiB of 64 KiB."""
    return (page_bytes // WORD_BYTES).bit_length() - 1


class PageFrames:
    def __init__(self, owners: int, flags: int, own_map: int, page_bytes: int = PAGE_BYTES) -> None:
        self._largest_order = largest_order(page_bytes)
        self._owners = owners
        self._flags = flags
        self._own_map = own_map

    def at(self, first_page: int, pages: int) -> list[int]:
        """Frames behind our own addresses; 0 where no page is mapped in. Raises ObservationError where the kernel hides them."""
        entries = memoryview(os.pread(self._own_map, pages * WORD_BYTES, first_page * WORD_BYTES)).cast("Q")
        frames = [entry & _FRAME if entry & _PRESENT else 0 for entry in entries]
        if not any(frames) and any(entry & _PRESENT for entry in entries):
            why = "/proc/self/pagemap hides the page frame numbers"
            raise ObservationError("cannot see whose pages are whose", why, "run as root with CAP_SYS_ADMIN")
        return frames

    def owners(self, frames: Iterable[int]) -> dict[int, int]:
        found = self._lookup(self._owners, frames)
        ownerless = [frame for frame, owner in found.items() if not owner]
        for frame, flags in self._lookup(self._flags, ownerless).items():
            if flags & TAIL:
                found[frame] = self._owner_of_head(frame)
        return found

    def chunk(self, first: int, count: int) -> tuple[bytes, bytes] | None:
        """Owners and flags of consecutive frames; None where nobody is charged for any of them."""
        owners = os.pread(self._owners, count * WORD_BYTES, first * WORD_BYTES)
        if not owners.strip(b"\0"):
            return None
        return owners, os.pread(self._flags, len(owners), first * WORD_BYTES)

    def _owner_of_head(self, frame: int) -> int:
        for order in range(1, self._largest_order + 1):
            head = frame >> order << order
            if self._lookup(self._flags, (head,)).get(head, 0) & HEAD:
                return self._lookup(self._owners, (head,)).get(head, 0)
        return 0

    def _lookup(self, file: int, frames: Iterable[int]) -> dict[int, int]:
        """Neighbours are read in one go."""
        found: dict[int, int] = {}
        for group in _neighbours(sorted(frames)):
            first = group[0]
            words = memoryview(os.pread(file, (group[-1] - first + 1) * WORD_BYTES, first * WORD_BYTES)).cast("Q")
            found.update((frame, words[frame - first]) for frame in group if frame - first < len(words))
        return found


def _neighbours(frames: list[int]) -> Iterator[list[int]]:
    start = 0
    for index in range(1, len(frames) + 1):
        if index == len(frames) or frames[index] - frames[index - 1] >= _NEAR:
            yield frames[start:index]
            start = index


@contextmanager
def open_page_frames(root: bytes = b"") -> Iterator[PageFrames]:
    """`root` is where the machine's file systems are mounted. Raises ObservationError where pages cannot be seen."""
    with (
        _opened(root + b"/proc/kpagecgroup") as owners,
        _opened(root + b"/proc/kpageflags") as flags,
        _opened(b"/proc/self/pagemap") as own_map,
    ):
        yield PageFrames(owners, flags, own_map)


@contextmanager
def _opened(path: bytes) -> Iterator[int]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        hint = (
            "run as root" if isinstance(error, PermissionError) else "this kernel or this view of it has no such file"
        )
        raise ObservationError("cannot see whose pages are whose", f"{shown(path)}: {error.strerror}", hint) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


_SLICE = 1 << 15
_LRU, _ANON, _SWAPBACKED, _UNEVICTABLE, _THP = 1 << 5, 1 << 12, 1 << 14, 1 << 18, 1 << 22


class FrameKind(StrEnum):
    FILE = "file"
    SHMEM = "shmem"
    ANON = "anon"
    OTHER = "other"


@dataclass(slots=True)
class FrameCount:
    by_owner: Counter[tuple[int, FrameKind]] = field(default_factory=Counter)
    """By inode of the closest live memory cgroup."""
    seen: int = 0
    hidden_tails: int = 0
    """Pages of huge pages whose owner this kernel tells only of the first."""


def count_frames(frames: PageFrames, ranges: Iterable[tuple[int, int]], go_on: Callable[[int], bool]) -> FrameCount:
    """`ranges` are first frames and the ones after the last; `go_on` is told how many are done, and may say no."""
    count = FrameCount()
    words: Counter[tuple[int, int]] = Counter()
    for first, end in ranges:
        for start in range(first, end, _SLICE):
            if not go_on(count.seen):
                return _sorted_out(count, words)
            pages = min(_SLICE, end - start)
            chunk = frames.chunk(start, pages)
            if chunk is not None:
                owners, flags = chunk
                words.update(zip(memoryview(owners).cast("Q"), memoryview(flags).cast("Q"), strict=False))
            count.seen += pages
    return _sorted_out(count, words)


def _sorted_out(count: FrameCount, words: Counter[tuple[int, int]]) -> FrameCount:
    for (owner, flags), pages in words.items():
        if owner:
            count.by_owner[owner, kind_of(flags)] += pages
        elif flags & TAIL and flags & _THP:
            count.hidden_tails += pages
    return count


def kind_of(flags: int) -> FrameKind:
    if flags & _ANON:
        return FrameKind.ANON
    if flags & _SWAPBACKED:
        return FrameKind.SHMEM
    return FrameKind.FILE if flags & (_LRU | _UNEVICTABLE) else FrameKind.OTHER
