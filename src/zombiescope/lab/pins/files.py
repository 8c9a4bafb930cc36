# SPDX-License-Identifier: Apache-2.0
"""Pins that are files: clean, dirty or mapped page cache, tmpfs pages, and tmpfs pages gone to swap.

Disk files are made outside and only read or written inside: making one inside would charge blocks of the file system's
own metadata (pages of the block device) to the zombie, a pin nobody asked for.
"""

import ctypes
import mmap
import os
import socket
import time
from dataclasses import dataclass, field

from zombiescope.errors import ActionFailedError, ObservationError
from zombiescope.host.page_size import PAGE_BYTES
from zombiescope.host.safe_paths import descriptor_of
from zombiescope.lab.hierarchy import squeeze
from zombiescope.lab.pins.pin import Pin, require_mappings, write_page
from zombiescope.lab.places import disk_folder, has_swap, make_run_folder, tmpfs_folder

_EVICTION_TRIES, _SWAP_TRIES = 5, 200
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass(eq=False)
class _FilePin(Pin):
    place = staticmethod(disk_folder)
    """Where the files of a run lie."""

    def __post_init__(self) -> None:
        self.folder = self.place(self.bench.run)

    def announce(self) -> None:
        self.bench.journal.intend("folder", path=self.folder)
        make_run_folder(self.folder)

    def file(self, index: int) -> str:
        return f"{self.folder}/{index:06d}"


class Tmpfs(_FilePin):
    kind = "tmpfs"
    place = staticmethod(tmpfs_folder)

    def charge(self, index: int, folder: str) -> None:
        write_page(self.file(index))


class Child(Tmpfs):
    """The zombie holds nothing; its dead child has a tmpfs page."""

    kind = "child"
    is_nested = True


class PageCache(_FilePin):
    kind = "page-cache"

    def prepare(self, indexes: range) -> None:
        for index in indexes:
            write_page(self.file(index))
        if len(indexes) > 1:
            sync_filesystem(self.folder)
        for index in indexes:
            _evict(self.file(index))

    def charge(self, index: int, folder: str) -> None:
        with descriptor_of(self.file(index), os.O_RDONLY | os.O_NOATIME) as descriptor:
            os.pread(descriptor, PAGE_BYTES, 0)


class DirtyFile(_FilePin):
    kind = "dirty-file"

    def prepare(self, indexes: range) -> None:
        for index in indexes:
            os.close(os.open(self.file(index), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        sync_filesystem(self.folder)

    def charge(self, index: int, folder: str) -> None:
        write_page(self.file(index))


@dataclass(eq=False)
class MappedFile(PageCache):
    """The hopping process maps each page at once and ends when the staying one has mapped them all: a page is never without."""

    kind = "mapped-file"
    is_held = True

    _maps: list[mmap.mmap] = field(default_factory=list)
    _ends: tuple[socket.socket, socket.socket] | None = None
    """Of the hopping process, and of the staying one."""

    def refuse(self) -> None:
        require_mappings(self.bench.count)

    def prepare(self, indexes: range) -> None:
        super().prepare(indexes)
        self._ends = socket.socketpair()

    def charge(self, index: int, folder: str) -> None:
        super().charge(index, folder)
        self._map(index)

    def hand_over(self) -> None:
        assert self._ends is not None
        hopping, staying = self._ends
        staying.close()
        hopping.send(b"m")
        hopping.recv(1)

    def adopt(self) -> None:
        assert self._ends is not None
        hopping, staying = self._ends
        hopping.close()
        if staying.recv(1):
            for index in range(self.bench.count):
                self._map(index)
        staying.close()

    def _map(self, index: int) -> None:
        with descriptor_of(self.file(index), os.O_RDONLY | os.O_NOATIME) as descriptor:
            view = mmap.mmap(descriptor, PAGE_BYTES, mmap.MAP_SHARED, mmap.PROT_READ)
        view[0]
        self._maps.append(view)


class Swap(Tmpfs):
    """A tmpfs page that went to swap while its cgroup lived: the swap record keeps the dead cgroup's id.

    Reclaim takes all it finds in a cgroup, so it is asked for when the hopping process has ended. Pages of that process would go
    to swap as well, and their entries, freed at its end, wait in a CPU's cache of swap slots (6.1, 6.12), charged to the dead.
    """

    kind = "swap"
    dies_last = True

    def refuse(self) -> None:
        if not has_swap():
            raise ObservationError(
                "cannot make zombies pinned by swap",
                "this host has no swap in use",
                "swapon a swap file, or choose another --pin",
            )

    def finish(self, index: int, folder: str) -> None:
        for _ in range(_SWAP_TRIES):
            squeeze(folder)
            if not is_resident(self.file(index)):
                return
            time.sleep(0.005)  # it is being written
        raise ActionFailedError(
            "cannot push a page to swap", "the kernel kept it in memory", "is the swap full? cat /proc/swaps"
        )


def _evict(path: str) -> None:
    """Drops the file's page, so that the next reader is charged for it."""
    with descriptor_of(path, os.O_RDONLY | os.O_NOATIME) as descriptor:
        for _ in range(_EVICTION_TRIES):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            if not is_resident(path):
                return
            os.fsync(descriptor)
    raise ActionFailedError(
        f"cannot drop the cached page of {path}", "the file system keeps it", "try --pin dirty-file or tmpfs"
    )


def is_resident(path: str) -> bool:
    """Whether the file's first page is in memory, asked without touching it."""
    with descriptor_of(path, os.O_RDWR) as descriptor, mmap.mmap(descriptor, PAGE_BYTES, mmap.MAP_SHARED) as view:
        answer = (ctypes.c_ubyte * 1)()
        anchor = ctypes.c_char.from_buffer(view)
        failed = _libc.mincore(ctypes.c_void_p(ctypes.addressof(anchor)), ctypes.c_size_t(PAGE_BYTES), answer)
        del anchor
        return failed != 0 or bool(answer[0] & 1)


def sync_filesystem(folder: str) -> None:
    """syncfs(2): what `sync` does, for the one file system."""
    with descriptor_of(folder, os.O_RDONLY | os.O_DIRECTORY) as descriptor:
        sync_filesystem_of(descriptor)


def sync_filesystem_of(descriptor: int) -> None:
    _libc.syncfs(descriptor)
