# SPDX-License-Identifier: Apache-2.0
"""SysV segments: who has one attached, and removing it.

Between the two calls somebody may attach it: then the kernel only marks it, and takes it when the last one has let go.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct

_IPC_RMID, _IPC_STAT = 0, 2
_NAMES_OF_GENERIC = ("x86_64", "aarch64", "riscv64", "loongarch64")
"""Machines of 64 bits on which the kernel's `shmid_ds` is that of asm-generic."""
_ATTACHED_AT = 88
_TABLE = "/proc/sysvipc/shm"
_libc = ctypes.CDLL(None, use_errno=True)


def attached(number: int) -> int:
    """Processes that have it attached; raises OSError where it is gone or cannot be looked at."""
    if platform.machine() not in _NAMES_OF_GENERIC:
        return _listed(number)
    buffer = ctypes.create_string_buffer(256)
    if _libc.shmctl(number, _IPC_STAT, buffer) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    found: int = struct.unpack_from("=Q", buffer, _ATTACHED_AT)[0]
    return found


def _listed(number: int) -> int:
    with open(_TABLE, "rb") as table:
        for line in table.read().split(b"\n")[1:]:
            words = line.split()
            if len(words) > 6 and int(words[1]) == number:
                return int(words[6])
    raise FileNotFoundError(2, "the segment is gone")


def remove(number: int) -> None:
    if _libc.shmctl(number, _IPC_RMID, None) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
