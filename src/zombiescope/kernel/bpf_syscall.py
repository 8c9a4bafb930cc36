# SPDX-License-Identifier: Apache-2.0
"""bpf(2) by ctypes: no library, header or compiler on the node. A refusal says in words what the errno means here."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from enum import IntEnum

from zombiescope.errors import ObservationError

_NUMBERS = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "loongarch64": 280}
_TRIES = 5


class Command(IntEnum):
    MAP_CREATE = 0
    MAP_UPDATE_ELEM = 2
    PROG_LOAD = 5
    PROG_TEST_RUN = 10
    PROG_GET_FD_BY_ID = 13
    OBJ_GET_INFO_BY_FD = 15
    RAW_TRACEPOINT_OPEN = 17
    MAP_LOOKUP_BATCH = 24
    MAP_LOOKUP_AND_DELETE_BATCH = 25
    ENABLE_STATS = 32


class BpfRefusedError(ObservationError):
    """The kernel, or something in front of it, refused bpf(2)."""

    def __init__(self, what: str, why: str, hint: str = "", number: int = 0) -> None:
        super().__init__(what, why, hint)
        self.number = number


def call(command: Command, attributes: bytearray) -> int:
    """The new descriptor, or 0. `attributes` is read and written by the kernel."""
    number = _NUMBERS.get(os.uname().machine)
    if number is None or sys.byteorder != "little":
        raise BpfRefusedError(_WHAT, f"this architecture ({os.uname().machine}) is not supported", _LOWER_TIERS)
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = (ctypes.c_char * len(attributes)).from_buffer(attributes)
    for _ in range(_TRIES):
        ctypes.set_errno(0)
        result = int(
            libc.syscall(ctypes.c_long(number), ctypes.c_long(command), buffer, ctypes.c_long(len(attributes)))
        )
        if result >= 0:
            return result
        if ctypes.get_errno() not in (errno.EAGAIN, errno.EINTR):
            break
    raise refusal(command.name, ctypes.get_errno())


def address_of(buffer: bytearray) -> int:
    return ctypes.addressof((ctypes.c_char * len(buffer)).from_buffer(buffer))


def refusal(step: str, number: int) -> BpfRefusedError:
    why, hint = _WORDS.get(number, ("", _LOWER_TIERS))
    name = errno.errorcode.get(number, str(number))
    said = f"bpf({step}) failed with {name} ({os.strerror(number)})"
    return BpfRefusedError(_WHAT, f"{said}: {why}" if why else said, hint, number)


_WHAT = "cannot walk the memory cgroups with BPF"
_LOWER_TIERS = "zombiescope falls back to /proc/kcore and to the page files by itself"
_CAPABILITIES = "run as root, or with CAP_BPF and CAP_PERFMON; in a container also allow bpf(2) in its seccomp profile"
_WORDS = {
    errno.EPERM: ("not permitted: missing capabilities, a seccomp profile, a security module or lockdown", _CAPABILITIES),
    errno.EACCES: ("the kernel's verifier or a security module refused it", _CAPABILITIES),
    errno.ENOSYS: ("this kernel has no bpf(2), or a seccomp profile hides it", _LOWER_TIERS),
    errno.EINVAL: ("the kernel is older than 5.17, a capability is missing, or lockdown forbids reading kernel memory",
                   "see /sys/kernel/security/lockdown; run as root, or with CAP_BPF and CAP_PERFMON"),
    errno.E2BIG: ("the kernel is older than 5.17", _LOWER_TIERS),
    errno.ENOENT: ("the kernel has no type information (/sys/kernel/btf/vmlinux)", "boot a kernel with CONFIG_DEBUG_INFO_BTF"),
    errno.ENOTSUPP if hasattr(errno, "ENOTSUPP") else 524: ("this kernel cannot run such programs", _LOWER_TIERS),
    errno.EOPNOTSUPP: ("this kernel cannot run such programs", _LOWER_TIERS),
    errno.ENOMEM: ("not enough memory for the program and its maps", "free memory, or raise the limit of this cgroup"),
    errno.EMFILE: ("too many open files", "raise `ulimit -n`"),
    errno.ENFILE: ("too many open files on this host", ""),
}  # fmt: skip
