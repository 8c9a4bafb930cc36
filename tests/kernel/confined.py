# SPDX-License-Identifier: Apache-2.0
"""A forked child with less power: fewer capabilities, or system calls that a seccomp filter refuses."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import struct
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.open_ways import open_ways

CAP_PERFMON, CAP_BPF = 38, 39
_PR_SET_KEEPCAPS, _PR_SET_NO_NEW_PRIVS, _PR_SET_SECCOMP = 8, 38, 22
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION_3 = 0x20080522
_CALLS = {
    "x86_64": {"bpf": 321, "perf_event_open": 298},
    "aarch64": {"bpf": 280, "perf_event_open": 241},
}
_libc = ctypes.CDLL(None, use_errno=True)


def answer_of_child(work: Callable[[], Any]) -> Any:
    """What `work` returned in a child, through JSON; a traceback there is an error here."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.close(reading)
            with open(writing, "w") as out:
                json.dump(work(), out)
            status = 0
        except BaseException:  # noqa: BLE001  (it must never return into pytest)
            os.write(2, traceback.format_exc().encode())
        finally:
            os._exit(status)
    os.close(writing)
    with open(reading) as answers:
        text = answers.read()
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended with status {status}"
    return json.loads(text)


def keep_only(*capabilities: int, user: int = 65534) -> None:
    """Become `user` with these capabilities and no others."""
    open_ways()
    _libc.prctl(_PR_SET_KEEPCAPS, 1, 0, 0, 0)
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    _set_capabilities(sum(1 << capability for capability in capabilities))


def keep_all_but(*capabilities: int) -> None:
    """Stay root, but without these capabilities."""
    lines = Path("/proc/self/status").read_text().splitlines()
    everything = next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff:"))
    _set_capabilities(everything & ~sum(1 << capability for capability in capabilities))


def _set_capabilities(mask: int) -> None:
    low, high = mask & 0xFFFFFFFF, mask >> 32
    header = ctypes.create_string_buffer(struct.pack("<Ii", _CAPABILITY_VERSION_3, 0))
    data = ctypes.create_string_buffer(struct.pack("<6I", low, low, 0, high, high, 0))
    assert _libc.capset(header, data) == 0, os.strerror(ctypes.get_errno())


def refuse_bpf(number: int) -> None:
    """From now on bpf(2) fails with this errno, as in a container's default profile."""
    refuse(number, "bpf")


def refuse(number: int, *calls: str) -> None:
    """The same for other system calls."""
    program = struct.pack("<HBBI", 0x20, 0, 0, 0)  # the number of the system call
    for call in calls:
        program += struct.pack("<HBBI", 0x15, 0, 1, _CALLS[platform.machine()][call])  # is it this one?
        program += struct.pack("<HBBI", 0x06, 0, 0, 0x00050000 | number)  # refuse
    program += struct.pack("<HBBI", 0x06, 0, 0, 0x7FFF0000)  # allow
    code = ctypes.create_string_buffer(program, len(program))
    header = ctypes.create_string_buffer(struct.pack("<H6xQ", len(program) // 8, ctypes.addressof(code)))
    assert _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
    assert _libc.prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, header, 0, 0) == 0, os.strerror(ctypes.get_errno())
