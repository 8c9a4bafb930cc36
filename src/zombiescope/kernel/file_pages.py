# SPDX-License-Identifier: Apache-2.0
"""Which live memory cgroups the resident pages of many files are charged to; and the pages of SysV shared memory that nobody has
attached, to which the only way is to attach it, read-only, for a moment.

Files are opened read-only without a new access time. The kernel allows that to the owner of a file and to CAP_FOWNER alone, and
to the same mincore(2) tells the truth; to anyone else it calls every page resident. Of a segment no page is allocated and no
charge changes; its times of attaching and detaching and its last process do.
"""

import ctypes
import errno
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from zombiescope.host import safe_open
from zombiescope.host.page_size import PAGE_BYTES
from zombiescope.host.safe_paths import held_open
from zombiescope.kernel.mount_paths import device_name
from zombiescope.kernel.pages import PAGES, PageFrames, ResidentWindow, resident_pages

_FLAGS = os.O_RDONLY | os.O_NOATIME
_MOST_FILES_LAID, _NO_MORE = 2000, 1 << 62
_GONE = (errno.ENOENT, errno.ESRCH, errno.ENXIO)


class Candidate(NamedTuple):
    door: bytes
    """Where to open it now."""
    path: bytes | None
    """Where a person can open it, if it has a name."""
    path_in_fs: bytes | None
    fstype: str
    holder: int | None = None
    """The process through which it was found."""
    is_link: bool = False
    """`door` is a link of /proc that leads to the file itself, whatever its name is now."""


class FoundFile(NamedTuple):
    candidate: Candidate
    path: bytes | None
    """The candidate's path, if it still leads to this very file."""
    device: str
    inode: int
    pages: Counter[int]
    """Resident pages by inode of the closest live memory cgroup, of those that were asked for."""
    resident: int
    """Resident pages, whoever is charged."""
    length: int
    """In pages, holes included."""
    is_part: bool
    """The time was used up before the end of the file."""


@dataclass(slots=True)
class _Opened:
    candidate: Candidate
    status: os.stat_result
    pages: Counter[int]
    resident: int = 0
    is_part: bool = False


class _Stretch(NamedTuple):
    """A part of a file in the window."""

    file: _Opened
    first: int
    pages: int


class FilePages:
    def __init__(self, frames: PageFrames, window: ResidentWindow, wanted: Iterable[int]) -> None:
        self._frames, self._window, self._wanted = frames, window, frozenset(wanted)
        self._laid: list[_Stretch] = []
        self._seen: set[tuple[int, int]] = set()
        self.files_seen = self.unreadable = 0

    def look(self, candidates: Iterable[Candidate], is_over: Callable[[], bool]) -> Iterator[FoundFile]:
        """Files with pages charged to the wanted ones. The same file is looked at once, however often it is offered."""
        done: list[_Opened] = []
        for candidate in candidates:
            if is_over():
                break
            try:
                with open_regular(candidate) as (descriptor, status):
                    if (opened := self._new(candidate, status)) is not None:
                        done.append(opened)
                        opened.is_part = not self._lay(opened, descriptor, is_over)
            except safe_open.NotRegularError:
                continue
            except OSError as error:
                self.unreadable += error.errno not in _GONE
            if not self._laid:
                yield from self._results(done)
        self._flush()
        yield from self._results(done)

    def _new(self, candidate: Candidate, status: os.stat_result) -> _Opened | None:
        key = (status.st_dev, status.st_ino)
        if key in self._seen:
            return None
        self._seen.add(key)
        self.files_seen += 1
        return _Opened(candidate, status, Counter()) if status.st_size and status.st_blocks else None

    def _lay(self, opened: _Opened, descriptor: int, is_over: Callable[[], bool]) -> bool:
        end = pages_of(opened.status.st_size)
        at = 0
        while at < end:
            if is_over():
                return False
            if not self._window.room or len(self._laid) >= _MOST_FILES_LAID:
                self._flush()
            if at:
                at = _next_data(descriptor, at)
            if (pages := min(end - at, self._window.room)) <= 0:
                break
            self._laid.append(_Stretch(opened, self._window.lay(descriptor, at, pages), pages))
            at += pages
        if not self._window.room or len(self._laid) >= _MOST_FILES_LAID:
            self._flush()
        return True

    def _flush(self) -> None:
        resident = self._window.resident()
        self._window.touch(resident)
        frames = self._frames.at(self._window.address // PAGE_BYTES, self._window.used) if resident else []
        self._window.clear()
        owners = self._frames.owners(frame for frame in frames if frame)
        for stretch in self._laid if owners else ():
            for frame in frames[stretch.first : stretch.first + stretch.pages]:
                if frame:
                    stretch.file.resident += 1
                    if (owner := owners.get(frame, 0)) in self._wanted:
                        stretch.file.pages[owner] += 1
        self._laid.clear()

    def look_at(self, address: int, length: int) -> Counter[int]:
        """The same for a mapping of somebody else's making, `length` pages long."""
        found: Counter[int] = Counter()
        for start in range(0, length, PAGES):
            place, pages = address + start * PAGE_BYTES, min(PAGES, length - start)
            if resident := resident_pages(place, pages):
                self._window.touch_at(place, pages, resident)
                owners = self._frames.owners(frame for frame in self._frames.at(place // PAGE_BYTES, pages) if frame)
                found.update(owner for owner in owners.values() if owner in self._wanted)
        return found

    @staticmethod
    def _results(done: list[_Opened]) -> Iterator[FoundFile]:
        for opened in done:
            if opened.pages:
                status = opened.status
                yield FoundFile(
                    opened.candidate,
                    _path_of(opened),
                    device_name(status.st_dev),
                    status.st_ino,
                    opened.pages,
                    opened.resident,
                    pages_of(status.st_size),
                    opened.is_part,
                )
        done.clear()


@contextmanager
def open_regular(candidate: Candidate) -> Iterator[tuple[int, os.stat_result]]:
    """The file behind a path or a link of /proc, if it is a regular one. Nothing else is opened: that could have effects."""
    descriptor, status = safe_open.open_regular(candidate.door, _FLAGS, follow=candidate.is_link)
    with held_open(descriptor):
        yield descriptor, status


def _path_of(opened: _Opened) -> bytes | None:
    """What was opened by its path has it; what came through a link of /proc may be called otherwise by now."""
    path = opened.candidate.path
    if not opened.candidate.is_link:
        return path
    try:
        return path if path and os.path.samestat(os.lstat(path), opened.status) else None
    except OSError:
        return None


def pages_of(length_bytes: int) -> int:
    return -(-length_bytes // PAGE_BYTES)


def _next_data(descriptor: int, page: int) -> int:
    """The next page that the file system has anything for; huge sparse files are mostly holes."""
    try:
        return os.lseek(descriptor, page * PAGE_BYTES, os.SEEK_DATA) // PAGE_BYTES
    except OSError as error:
        return _NO_MORE if error.errno == errno.ENXIO else page


_TRIES = 3
_BATCH = 64  # changes a CPU keeps to itself [every kernel since 5.9: MEMCG_CHARGE_BATCH]


class Figures(NamedTuple):
    """Pages mapped, as memory.stat of the parent has them."""

    own: int
    below: int


def measure(
    window: ResidentWindow, files: Sequence[tuple[Candidate, int]], figures: Callable[[], Figures], cpus: int
) -> Figures | None:
    """How many pages of the files (each with its length in pages) are the parent's own and how many lie below it.
    None where the figures would not hold still or a file could not be mapped."""
    try:
        for candidate, pages in files:
            with open_regular(candidate) as (descriptor, _):
                window.lay(descriptor, 0, pages)
        resident = window.resident()
        for _ in range(_TRIES):
            if (found := _once(window, resident, figures, cpus)) is not None:
                return found
    except OSError:
        return None
    finally:
        window.clear()
    return None


def _once(window: ResidentWindow, resident: list[int], figures: Callable[[], Figures], cpus: int) -> Figures | None:
    rounds = 2 * _BATCH * (cpus + 1) // max(2 * len(resident), 1) + 1

    def settle() -> None:
        for _ in range(rounds):
            window.touch(resident)
            window.let_go()

    settle()
    before = figures()
    settle()
    window.touch(resident)
    during = figures()
    window.let_go()
    settle()
    after = figures()
    up = Figures(during.own - before.own, during.below - before.below)
    down = Figures(during.own - after.own, during.below - after.below)
    return up if up == down and min(up) >= 0 and sum(up) <= len(resident) else None


_SHM_RDONLY = 0o10000
_FAILED = ctypes.c_void_p(-1).value
_libc = ctypes.CDLL(None, use_errno=True)
_libc.shmat.restype = ctypes.c_void_p
_libc.shmat.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
_libc.shmdt.argtypes = (ctypes.c_void_p,)


@contextmanager
def attached(segment: int) -> Iterator[int]:
    """The address. Raises OSError where the segment is gone or refused."""
    address = _libc.shmat(segment, None, _SHM_RDONLY)
    if address is None or address == _FAILED:
        raise safe_open.last_error()
    try:
        yield int(address)
    finally:
        _libc.shmdt(address)


def nameless_device() -> str:
    """Device of the kernel's own tmpfs, where memfds, shared anonymous memory and SysV segments live."""
    with held_open(os.memfd_create("zombiescope")) as descriptor:
        return device_name(os.fstat(descriptor).st_dev)
