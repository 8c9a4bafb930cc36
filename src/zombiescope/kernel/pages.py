# SPDX-License-Identifier: Apache-2.0
"""Physical pages by number: whose they are (/proc/kpagecgroup) and what they are (/proc/kpageflags); and a stretch of our own
addresses through which resident pages of files are looked at without leaving a trace.

kpagecgroup gives the inode of the closest live memory cgroup, 0 where nobody is charged. Kernels that know no folios give 0
for all but the first page of a huge one, so there the first page is asked.
"""

import ctypes
import errno
import mmap
import os
from array import array
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from zombiescope.errors import ObservationError
from zombiescope.facts.names import shown
from zombiescope.host.page_size import PAGE_BYTES
from zombiescope.host.safe_paths import held_open

WORD_BYTES = 8
HEAD, TAIL = 1 << 15, 1 << 16
_FRAME, _PRESENT = (1 << 55) - 1, 1 << 63
_NEAR = 512


def largest_order(page_bytes: int) -> int:
    """A huge page is as many pages as a page table has entries: 2 MiB of 4 KiB, 32 MiB of 16 KiB, 512 MiB of 64 KiB."""
    return (page_bytes // WORD_BYTES).bit_length() - 1


class PageFrames:
    def __init__(self, owners: int, flags: int, own_map: int, page_bytes: int = PAGE_BYTES) -> None:
        self._owners, self._flags, self._own_map = owners, flags, own_map
        self._largest_order = largest_order(page_bytes)

    def at(self, first_page: int, pages: int) -> list[int]:
        """Frames behind our own addresses; 0 where no page is mapped in. Raises ObservationError where the kernel hides them."""
        entries = memoryview(os.pread(self._own_map, pages * WORD_BYTES, first_page * WORD_BYTES)).cast("Q")
        frames = [entry & _FRAME if entry & _PRESENT else 0 for entry in entries]
        if not any(frames) and any(entry & _PRESENT for entry in entries):
            raise ObservationError(
                "cannot see whose pages are whose",
                "/proc/self/pagemap hides the page frame numbers",
                "run as root with CAP_SYS_ADMIN",
            )
        return frames

    def owners(self, frames: Iterable[int]) -> dict[int, int]:
        found = self._lookup(self._owners, frames)
        ownerless = [frame for frame, owner in found.items() if not owner]
        for frame, flags in self._lookup(self._flags, ownerless).items():
            if flags & TAIL:
                found[frame] = self._owner_of_head(frame)
        return found

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
    with held_open(descriptor):
        yield descriptor


PAGES = 4096
_NO_ACCESS, _MAP_FIXED, _MAP_NORESERVE = 0, 0x10, 0x4000
_RESERVED = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _MAP_NORESERVE
_MOST_VECTORS = 1024
_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long)
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
_libc.mincore.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p)
_libc.madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
_libc.writev.restype = ctypes.c_ssize_t
_libc.writev.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_int)


class ResidentWindow:
    """Files are laid side by side, looked at together, and taken out together.

    Only pages that mincore(2) calls resident are touched, so nothing is read from disk or swap and nothing is allocated. They are
    touched by letting the kernel copy one byte of each into a pipe: a page that goes away meanwhile is an error there and no
    SIGBUS, and unlike MADV_POPULATE_READ it does not mark the page accessed (seen in kpageflags on 6.18). MADV_RANDOM while
    touching stops readahead; MADV_SEQUENTIAL before unmapping keeps the page's age as it was.
    """

    def __init__(self, address: int, pages: int, pipe: tuple[int, int]) -> None:
        self.address, self._size, self._pipe = address, pages, pipe
        self.used = 0
        """Pages laid out so far."""

    @property
    def room(self) -> int:
        return self._size - self.used

    def lay(self, descriptor: int, first_page: int, pages: int) -> int:
        """Maps a part of a file behind what is there; its first page in the window. Raises OSError where it cannot be mapped."""
        assert pages <= self.room
        where = self.used
        place = self.address + where * PAGE_BYTES
        _map(place, pages, mmap.PROT_READ, mmap.MAP_SHARED | _MAP_FIXED, descriptor, first_page)
        self.used += pages
        return where

    def resident(self) -> list[int]:
        """Pages of the window that are in memory, asked without touching them."""
        return resident_pages(self.address, self.used)

    def touch(self, pages: Sequence[int]) -> None:
        """Maps resident pages in."""
        self.touch_at(self.address, self.used, pages)

    def touch_at(self, address: int, length: int, pages: Sequence[int]) -> None:
        """The same for a mapping of somebody else's making, `length` pages long."""
        _libc.madvise(address, length * PAGE_BYTES, mmap.MADV_RANDOM)
        _touch([address + page * PAGE_BYTES for page in pages], self._pipe)
        _libc.madvise(address, length * PAGE_BYTES, mmap.MADV_SEQUENTIAL)

    def let_go(self) -> None:
        """Takes the pages out of our page table; the files stay laid out."""
        _libc.madvise(self.address, self.used * PAGE_BYTES, mmap.MADV_DONTNEED)

    def clear(self) -> None:
        if self.used:
            _map(self.address, self.used, _NO_ACCESS, _RESERVED | _MAP_FIXED, -1, 0)
            self.used = 0


@contextmanager
def open_window(pages: int = PAGES) -> Iterator[ResidentWindow]:
    with _pipe() as pipe:
        address = _map(None, pages, _NO_ACCESS, _RESERVED, -1, 0)
        try:
            yield ResidentWindow(address, pages, pipe)
        finally:
            _libc.munmap(address, pages * PAGE_BYTES)


def resident_pages(address: int, pages: int) -> list[int]:
    """Which pages behind a mapping are in memory; none where the kernel refuses to say."""
    answer = ctypes.create_string_buffer(max(pages, 1))
    if not pages or _libc.mincore(address, pages * PAGE_BYTES, answer) != 0:
        return []
    return [page for page, state in enumerate(answer.raw[:pages]) if state & 1]


def _touch(addresses: Sequence[int], pipe: tuple[int, int]) -> None:
    """Lets the kernel read one byte at each address; an address with nothing behind it is passed over."""
    for start in range(0, len(addresses), _MOST_VECTORS):
        part = addresses[start : start + _MOST_VECTORS]
        if _copy(part, pipe) < len(part):
            for address in part:
                _copy([address], pipe)


def _copy(addresses: Sequence[int], pipe: tuple[int, int]) -> int:
    vectors = array("Q", [word for address in addresses for word in (address, 1)])
    copied = int(_libc.writev(pipe[1], vectors.buffer_info()[0], len(addresses)))
    if copied > 0:
        os.read(pipe[0], copied)
    return copied


@contextmanager
def _pipe() -> Iterator[tuple[int, int]]:
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    with held_open(reader), held_open(writer):
        yield reader, writer


def _map(address: int | None, pages: int, protection: int, flags: int, descriptor: int, first_page: int) -> int:
    mapped = _libc.mmap(address, pages * PAGE_BYTES, protection, flags, descriptor, first_page * PAGE_BYTES)
    if mapped is None or mapped == _FAILED:
        code = ctypes.get_errno() or errno.ENOMEM
        raise OSError(code, os.strerror(code))
    return int(mapped)
