# SPDX-License-Identifier: Apache-2.0
"""What is no sample: names, forks, maps, kernel symbols, cgroups, and what the kernel says it lost."""

from __future__ import annotations

import struct
from typing import NamedTuple

from zombiescope.facts.names import shown
from zombiescope.profiler.perf import data_file
from zombiescope.profiler.perf.data_file import HEADER_BUILD_ID, Event, build_id_record

_MMAP, _LOST, _COMM, _THROTTLE, _FORK, _MMAP2, _LOST_SAMPLES, _KSYMBOL, _CGROUP = 1, 2, 3, 5, 7, 10, 13, 17, 19
_COMM_EXEC, _MMAP_BUILD_ID = 1 << 13, 1 << 14
_MOST_ID_BYTES = 20
_KERNEL_MODE = 1
_KSYMBOL_GONE = 1


class Renamed(NamedTuple):
    time: int
    pid: int
    tid: int
    name: str
    is_exec: bool


class Forked(NamedTuple):
    time: int
    pid: int
    tid: int
    parent_pid: int
    parent_tid: int


class Mapped(NamedTuple):
    time: int
    pid: int
    start: int
    length: int
    offset: int
    path: str
    build_id: str


class KernelSymbol(NamedTuple):
    time: int
    start: int
    length: int
    name: str
    is_gone: bool = False
    """It was unregistered at this time."""


Change = Renamed | Forked | Mapped


class Side:
    """Filled record by record, then only read."""

    kernel_text: int | None = None
    """Where the kernel's own code began when this was recorded: tells whether a saved kallsyms is of the same boot."""
    told_lost = 0
    """By the kernel, as soon as there is room again for saying so."""
    counted_lost = 0
    """By perf when it ends, from the kernel's counters: the same ones and those that were never told."""
    throttled = 0
    broken = 0

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self.kernel_symbols: list[KernelSymbol] = []
        self.cgroups: dict[int, str] = {}
        self.build_ids: dict[str, str] = {}

    @property
    def lost(self) -> int:
        return max(self.told_lost, self.counted_lost)


def read_side(records: list[tuple[int, int, bytes]], event: Event) -> Side:
    """Records as (type, misc, bytes after the header), in file order."""
    side = Side()
    trailer = event.trailer()
    time_word = trailer.get(data_file.TIME)
    trailer_bytes = len(trailer) * 8
    for kind, misc, body in records:
        reader = _READERS.get(kind)
        if reader is None:
            continue
        time = 0
        if time_word is not None and len(body) >= trailer_bytes:
            time = struct.unpack_from("<Q", body, len(body) + time_word * 8)[0]
        try:
            reader(side, time, misc, body[: len(body) - trailer_bytes] if time_word is not None else body)
        except (struct.error, IndexError):
            side.broken += 1
    side.changes.sort(key=lambda change: change.time)
    side.kernel_symbols.sort(key=lambda symbol: symbol.time)
    return side


def _name(raw: bytes) -> str:
    return shown(raw.split(b"\0", 1)[0])


def _comm(side: Side, time: int, misc: int, body: bytes) -> None:
    pid, tid = struct.unpack_from("<II", body)
    side.changes.append(Renamed(time, pid, tid, _name(body[8:]), bool(misc & _COMM_EXEC)))


def _fork(side: Side, time: int, misc: int, body: bytes) -> None:
    del misc
    pid, parent_pid, tid, parent_tid = struct.unpack_from("<IIII", body)
    side.changes.append(Forked(time, pid, tid, parent_pid, parent_tid))


def _mmap(side: Side, time: int, misc: int, body: bytes) -> None:
    pid, _, start, length, offset = struct.unpack_from("<IIQQQ", body)
    _map(side, misc, Mapped(time, pid, start, length, offset, _name(body[32:]), ""))


def _mmap2(side: Side, time: int, misc: int, body: bytes) -> None:
    pid, _, start, length, offset = struct.unpack_from("<IIQQQ", body)
    _map(side, misc, Mapped(time, pid, start, length, offset, _name(body[64:]), _id_of(misc, body)))


def _id_of(misc: int, body: bytes) -> str:
    """Linux 6.18 marks a record so, too, when only another recorder asked for build ids: then device and inode stand there."""
    is_one = misc & _MMAP_BUILD_ID and body[32] <= _MOST_ID_BYTES and not any(body[33:36])
    return body[36 : 36 + body[32]].hex() if is_one else ""


def _map(side: Side, misc: int, mapped: Mapped) -> None:
    if misc & 7 != _KERNEL_MODE:
        side.changes.append(mapped)
    elif mapped.path.startswith("[kernel.kallsyms]"):
        side.kernel_text = mapped.offset or mapped.start


def _lost(side: Side, time: int, misc: int, body: bytes) -> None:
    del time, misc
    side.told_lost += struct.unpack_from("<QQ", body)[1]


def _lost_samples(side: Side, time: int, misc: int, body: bytes) -> None:
    del time, misc
    side.counted_lost += struct.unpack_from("<Q", body)[0]


def _throttle(side: Side, time: int, misc: int, body: bytes) -> None:
    del time, misc, body
    side.throttled += 1


def _ksymbol(side: Side, time: int, misc: int, body: bytes) -> None:
    del misc
    start, length, _, flags = struct.unpack_from("<QIHH", body)
    side.kernel_symbols.append(KernelSymbol(time, start, length, _name(body[16:]), bool(flags & _KSYMBOL_GONE)))


def _cgroup(side: Side, time: int, misc: int, body: bytes) -> None:
    del time, misc
    side.cgroups[struct.unpack_from("<Q", body)[0]] = _name(body[8:])


def _build_id(side: Side, time: int, misc: int, body: bytes) -> None:
    del time
    side.build_ids.update([build_id_record(b"\0" * 8 + body, misc)])


_READERS = {
    _MMAP: _mmap,
    _LOST: _lost,
    _COMM: _comm,
    _THROTTLE: _throttle,
    _FORK: _fork,
    _MMAP2: _mmap2,
    _LOST_SAMPLES: _lost_samples,
    _KSYMBOL: _ksymbol,
    _CGROUP: _cgroup,
    HEADER_BUILD_ID: _build_id,
}
