# SPDX-License-Identifier: Apache-2.0
"""SysV shared memory segments of the lab: made in a key range of its own, found by key, owner, size and first bytes."""

from __future__ import annotations

import ctypes
import errno
import os
from dataclasses import dataclass
from pathlib import Path

from zombiescope.host.page_size import PAGE_BYTES
from zombiescope.lab.names import SYSV_KEY_BASE, SYSV_KEY_COUNT, SYSV_MARK

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


def _raise() -> None:
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number))


def make_segment(offset: int) -> tuple[Segment, int]:
    """Makes one segment of a page at the next free key from `offset` on; returns it and the offset after it."""
    for step in range(SYSV_KEY_COUNT):
        key = SYSV_KEY_BASE + (offset + step) % SYSV_KEY_COUNT
        number = _libc.shmget(key, PAGE_BYTES, _IPC_CREAT | _IPC_EXCL | 0o600)
        if number >= 0:
            return Segment(key, number, os.getpid()), offset + step + 1
        if ctypes.get_errno() != errno.EEXIST:
            break
    _raise()
    raise AssertionError


def mark_segment(segment: Segment, run: str) -> None:
    """Writes the run's name into the segment's only page, which charges the page to whoever calls this first."""
    address = _attach(segment, 0)
    ctypes.memmove(address, SYSV_MARK + run.encode() + b"\0", len(SYSV_MARK) + len(run) + 1)
    _libc.shmdt(address)


def _attach(segment: Segment, flags: int) -> int:
    address = _libc.shmat(segment.id, None, flags)
    if address is None or address == ctypes.c_void_p(-1).value:
        _raise()
    return int(address)


def owner_of(segment: Segment) -> str | None:
    """The run that wrote its name into it, `""` when nothing is written yet, None when it is not ours."""
    try:
        address = _attach(segment, _SHM_RDONLY)
    except OSError:
        return None
    head = ctypes.string_at(address, len(SYSV_MARK) + 48)
    _libc.shmdt(address)
    if not head.strip(b"\0"):
        return ""
    if not head.startswith(SYSV_MARK):
        return None
    return head[len(SYSV_MARK) :].split(b"\0")[0].decode("ascii", "replace")


def list_candidates(table: str | None = None) -> list[Segment]:
    """Segments that have our keys, our size and our owner."""
    try:
        text = Path("/proc/sysvipc/shm").read_text() if table is None else table
    except OSError:
        return []
    found = []
    for line in text.splitlines()[1:]:
        fields = line.split()
        if len(fields) < 10:
            continue
        key, number, size, creator, uid = int(fields[0]), int(fields[1]), int(fields[3]), int(fields[4]), int(fields[7])
        in_range = 0 <= (key & 0xFFFFFFFF) - SYSV_KEY_BASE < SYSV_KEY_COUNT
        if in_range and size == PAGE_BYTES and uid == os.geteuid():
            found.append(Segment(key & 0xFFFFFFFF, number, creator))
    return found


def remove_segment(segment: Segment) -> None:
    if _libc.shmctl(segment.id, _IPC_RMID, None) != 0 and ctypes.get_errno() not in (errno.EINVAL, errno.EIDRM):
        _raise()
