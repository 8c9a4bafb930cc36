# SPDX-License-Identifier: Apache-2.0
"""Pins that are no pages: sockets and unreaped processes. And directories nobody removed, which are no zombies at all."""

import ctypes
import errno
import mmap
import os
import socket
import zlib
from dataclasses import dataclass, field

from zombiescope.errors import ObservationError
from zombiescope.host.page_size import PAGE_BYTES
from zombiescope.host.safe_open import last_error
from zombiescope.lab.hierarchy import write_file
from zombiescope.lab.pins.pin import Pin, require_descriptors, require_mappings
from zombiescope.lab.places import LAB, SYSV_KEY_BASE, SYSV_KEY_COUNT, SYSV_MARK, text_of

_IPC_CREAT, _IPC_EXCL, _IPC_RMID = 0o1000, 0o2000, 0
_SHM_RDONLY = 0o10000
_libc = ctypes.CDLL(None, use_errno=True)
_libc.shmat.restype = ctypes.c_void_p
_libc.shmat.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_int)
_libc.shmdt.argtypes = (ctypes.c_void_p,)
_libc.shmget.argtypes = (ctypes.c_int, ctypes.c_size_t, ctypes.c_int)


@dataclass(frozen=True, slots=True)
class Segment:
    key: int
    id: int
    creator: int
    """Process id of who made it."""


def make_segment(offset: int) -> tuple[Segment, int]:
    """Makes one segment of a page at the next free key from `offset` on; returns it and the offset after it."""
    for step in range(SYSV_KEY_COUNT):
        key = SYSV_KEY_BASE + (offset + step) % SYSV_KEY_COUNT
        if (number := _libc.shmget(key, PAGE_BYTES, _IPC_CREAT | _IPC_EXCL | 0o600)) >= 0:
            return Segment(key, number, os.getpid()), offset + step + 1
        if ctypes.get_errno() != errno.EEXIST:
            break
    raise last_error()


def mark_segment(segment: Segment, run: str) -> None:
    """Writes the run's name into the segment's only page, which charges the page to whoever calls this first."""
    address = _attach(segment, 0)
    ctypes.memmove(address, SYSV_MARK + run.encode() + b"\0", len(SYSV_MARK) + len(run) + 1)
    _libc.shmdt(address)


def _attach(segment: Segment, flags: int) -> int:
    address = _libc.shmat(segment.id, None, flags)
    if address is None or address == ctypes.c_void_p(-1).value:
        raise last_error()
    return int(address)


def owner_of(segment: Segment) -> str | None:
    """The run that wrote its name into it, `""` when nothing is written yet, None when it is not ours."""
    try:
        address = _attach(segment, _SHM_RDONLY)
    except OSError:
        return None
    head = ctypes.string_at(address, len(SYSV_MARK) + 48)
    _libc.shmdt(address)
    if not head.startswith(SYSV_MARK):
        return None if head.strip(b"\0") else ""
    return head[len(SYSV_MARK) :].split(b"\0")[0].decode("ascii", "replace")


def list_candidates(table: str | None = None) -> list[Segment]:
    """Segments that have our keys, our size and our owner."""
    found = []
    for line in (text_of("/proc/sysvipc/shm") if table is None else table).splitlines()[1:]:
        fields = line.split()
        if len(fields) >= 10:
            key, number, size, creator, uid = (int(fields[place]) for place in (0, 1, 3, 4, 7))
            in_range = 0 <= (key & 0xFFFFFFFF) - SYSV_KEY_BASE < SYSV_KEY_COUNT
            if in_range and size == PAGE_BYTES and uid == os.geteuid():
                found.append(Segment(key & 0xFFFFFFFF, number, creator))
    return found


def remove_segment(segment: Segment) -> None:
    if _libc.shmctl(segment.id, _IPC_RMID, None) != 0 and ctypes.get_errno() not in (errno.EINVAL, errno.EIDRM):
        raise last_error()


_TCP_LIMIT = "memory.kmem.tcp.limit_in_bytes"
_FILES_A_MESSAGE = 200


@dataclass(eq=False)
class Socket(Pin):
    """A TCP socket made inside and held outside. On v1 sockets are accounted only below a TCP memory limit."""

    kind = "socket"
    bytes_each = 0
    is_held = True

    _sockets: list[socket.socket] = field(default_factory=list)
    _held: list[int] = field(default_factory=list)
    _ends: tuple[socket.socket, socket.socket] | None = None
    """Of the hopping process, and of the staying one."""

    def refuse(self) -> None:
        hierarchy = self.bench.hierarchy
        if hierarchy.is_unified or any(
            os.path.exists(hierarchy.file(path, _TCP_LIMIT)) for path in ("/", self.bench.subtree)
        ):
            return
        raise ObservationError(
            "cannot make zombies pinned by sockets",
            f"this kernel's v1 memory hierarchy has no {_TCP_LIMIT}, so sockets are not accounted",
            "choose another --pin",
        )

    def prepare(self, indexes: range) -> None:
        require_descriptors(len(indexes))
        self._ends = socket.socketpair()

    def arm(self, folder: str) -> None:
        if not self.bench.hierarchy.is_unified:
            write_file(f"{folder}/{_TCP_LIMIT}", b"1073741824")

    def charge(self, index: int, folder: str) -> None:
        self._sockets.append(socket.socket(socket.AF_INET, socket.SOCK_STREAM))

    def hand_over(self) -> None:
        assert self._ends is not None
        for start in range(0, len(self._sockets), _FILES_A_MESSAGE):
            batch = [each.fileno() for each in self._sockets[start : start + _FILES_A_MESSAGE]]
            socket.send_fds(self._ends[0], [b"s"], batch)

    def adopt(self) -> None:
        assert self._ends is not None
        sender, receiver = self._ends
        sender.close()
        while len(self._held) < self.bench.count:
            message, files, _, _ = socket.recv_fds(receiver, 1, _FILES_A_MESSAGE)
            if not message:
                return
            self._held.extend(files)


class Unreaped(Pin):
    """A child that ended inside and whose parent, the process that stays, never waits for it."""

    kind = "unreaped"
    bytes_each = 0
    is_held = True


class Visible(Pin):
    """Directories left behind: the other disease."""

    kind = "visible"
    bytes_each = 0


@dataclass(eq=False)
class Memfd(Pin):
    kind = "memfd"
    is_held = True

    _files: list[int] = field(default_factory=list)

    def prepare(self, indexes: range) -> None:
        require_descriptors(len(indexes))
        self._files = [os.memfd_create(self._name(index)) for index in indexes]

    def charge(self, index: int, folder: str) -> None:
        os.pwrite(self._files[index], b"z" * PAGE_BYTES, 0)

    def file(self, index: int) -> str | None:
        return f"/memfd:{self._name(index)}"

    def _name(self, index: int) -> str:
        return f"{LAB}-{self.bench.run}-{index:06d}"


@dataclass(eq=False)
class SharedAnon(Pin):
    """Every zombie's page in a mapping of its own, made by and shared with the process that stays."""

    kind = "shared-anon"
    is_held = True

    _maps: list[mmap.mmap] = field(default_factory=list)

    def refuse(self) -> None:
        require_mappings(self.bench.count)

    def prepare(self, indexes: range) -> None:
        self._maps = [mmap.mmap(-1, PAGE_BYTES) for _ in indexes]

    def charge(self, index: int, folder: str) -> None:
        self._maps[index][:] = b"z" * PAGE_BYTES


@dataclass(eq=False)
class SysvShm(Pin):
    kind = "sysv-shm"

    _segments: list[Segment] = field(default_factory=list)

    def announce(self) -> None:
        self.bench.journal.intend("sysv", first_key=SYSV_KEY_BASE, keys=SYSV_KEY_COUNT)

    def file(self, index: int) -> str | None:
        return f"/SYSV{self._segments[index].key:08x}"

    def prepare(self, indexes: range) -> None:
        offset = zlib.crc32(self.bench.run.encode()) % SYSV_KEY_COUNT
        for made in indexes:
            try:
                segment, offset = make_segment(offset)
            except OSError as error:
                raise ObservationError(
                    f"cannot make {self.bench.count} SysV segments",
                    f"the kernel refused after {made}: {error.strerror} (kernel.shmmni limits their number)",
                    f"sysctl kernel.shmmni={2 * self.bench.count}, or a smaller --count",
                ) from error
            self._segments.append(segment)

    def charge(self, index: int, folder: str) -> None:
        mark_segment(self._segments[index], self.bench.run)
