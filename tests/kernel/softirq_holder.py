# SPDX-License-Identifier: Apache-2.0
"""Holds a core with softirqs off for a while, in a child: what a long critical section of the kernel does, on purpose."""

from __future__ import annotations

import os
import struct
import time
from typing import NamedTuple

from tests.kernel.confined import answer_of_child

from zombiescope.kernel.bpf_object import BpfObject, Command, address_of, call, packaged

_BLOB = "softirq_hold.blob"


def _wall_at_boot() -> float:
    """From the two clocks, read as near to each other as they were in any of many tries: one may be put aside between them."""
    tries = []
    for _ in range(100):
        before, wall, after = time.monotonic(), time.time(), time.monotonic()
        tries.append((after - before, wall - (before + after) / 2))
    return min(tries)[1]


class Held(NamedTuple):
    began_at: float
    seconds: float


def hold_softirqs(core: int, seconds: float) -> Held:
    """When it began, by the wall clock, and how long it was, by the kernel's own stamps."""

    def work() -> list[float]:
        os.sched_setaffinity(0, {core})
        with BpfObject(packaged(_BLOB)) as program:
            state = program.map_memory("bss", 24, writable=True)
            struct.pack_into("<Q", state, 0, int(seconds * 1e9))
            packet, attributes = bytearray(64), bytearray(80)
            struct.pack_into("<IIII", attributes, 0, program.programs["hold"], 0, len(packet), 0)
            struct.pack_into("<Q", attributes, 16, address_of(packet))
            struct.pack_into("<I", attributes, 32, 1)
            call(Command.PROG_TEST_RUN, attributes)
            _, began, ended = struct.unpack_from("<3Q", state)
        return [_wall_at_boot() + began / 1e9, (ended - began) / 1e9]

    return Held(*answer_of_child(work))
