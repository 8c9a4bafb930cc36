# SPDX-License-Identifier: Apache-2.0
"""SysV shared memory that nobody has attached: the only way to its pages is to attach it, read-only, for a moment.

No page is allocated and no charge changes; the segment's times of attaching and detaching and its last process do.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager

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
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    try:
        yield int(address)
    finally:
        _libc.shmdt(address)


def nameless_device() -> str:
    """Device of the kernel's own tmpfs, where memfds, shared anonymous memory and SysV segments live."""
    descriptor = os.memfd_create("zombiescope")
    try:
        device = os.fstat(descriptor).st_dev
    finally:
        os.close(descriptor)
    return f"{os.major(device)}:{os.minor(device)}"
