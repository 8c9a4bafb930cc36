# SPDX-License-Identifier: Apache-2.0
"""Drives the BPF walk over processes and their open files, chunk after chunk, and names what each holder holds."""

from __future__ import annotations

import socket
import struct

from zombiescope.facts.gap import Gap
from zombiescope.facts.zombies import Holder, Holders, PinKind
from zombiescope.kernel.bpf_object import BpfObject, parse_blob
from zombiescope.kernel.bpf_walk import packaged

HOLDERS_RUN_LIMIT_NANOSECONDS = 4_000_000
_MOST_RUNS = 5000
_OVERLAP = 16
_HOLDERS = 4096
_HOLDER = struct.Struct("<2Q6I16s")
_ASKED = struct.Struct("<Q2I")
_ANSWERED = struct.Struct("<Q4I")
_MORE, _DONE = 0, 1
_KINDS = {1: PinKind.TASK, 2: PinKind.NAMESPACE, 3: PinKind.SOCKET}
_NAME = "holders.blob"


def find_holders() -> Holders:
    """Every process is looked at once. Processes that end meanwhile shift the list, so each run begins a little earlier."""
    found: dict[tuple[int, PinKind, int, int], Holder] = {}
    with BpfObject(parse_blob(_NAME, packaged(_NAME))) as program:
        state = program.map_memory("bss", _ASKED.size + _ANSWERED.size, writable=True)
        buffer = program.map_memory("holders", _HOLDERS * _HOLDER.size)
        task = file = 0
        status = _MORE
        for _ in range(_MOST_RUNS):
            _ASKED.pack_into(state, 0, HOLDERS_RUN_LIMIT_NANOSECONDS, task, file)
            program.run("walk_tasks")
            _, status, count, task, file = _ANSWERED.unpack_from(state, _ASKED.size)
            for holder in map(_holder, _HOLDER.iter_unpack(buffer[: count * _HOLDER.size])):
                found[holder.serial, holder.kind, holder.process, holder.inode] = holder
            if status != _MORE:
                break
            if not file:
                task = max(task - _OVERLAP, 0)
        state.close()
        buffer.close()
    holders = tuple(found.values())
    return Holders(holders) if status == _DONE else Holders(holders, (_CUT_SHORT,))


_CUT_SHORT = Gap("zombies[].pins[].holder", "the list of processes could not be followed to its end", "run it again")


def _holder(row: tuple[int, int, int, int, int, int, int, int, bytes]) -> Holder:
    serial, inode, kind, process, parent, family, _, _, name = row
    known = _KINDS[kind]
    text = _family(family) if known is PinKind.SOCKET else ""
    return Holder(serial, known, process, name.partition(b"\0")[0], parent, inode, text)


def _family(number: int) -> str:
    try:
        return socket.AddressFamily(number).name.removeprefix("AF_").lower()
    except ValueError:
        return f"family {number}"
