# SPDX-License-Identifier: Apache-2.0
"""What is no sample: names, forks, maps, kernel symbols, cgroups, and what the kernel says it lost."""

from __future__ import annotations

import bisect
import struct
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from zombiescope.facts.names import shown
from zombiescope.profiler.perf import data_file
from zombiescope.profiler.perf.data_file import HEADER_BUILD_ID, Event, build_id_record
from zombiescope.profiler.stacks.arrays import I64, U64, grouping

_MMAP, _LOST, _COMM, _THROTTLE, _FORK, _MMAP2, _LOST_SAMPLES, _KSYMBOL, _CGROUP = 1, 2, 3, 5, 7, 10, 13, 17, 19
_COMM_EXEC, _MMAP_BUILD_ID = 1 << 13, 1 << 14
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


@dataclass(slots=True)
class Side:
    """Filled record by record, then only read."""

    changes: list[Change] = field(default_factory=list)
    kernel_symbols: list[KernelSymbol] = field(default_factory=list)
    kernel_text: int | None = None
    """Where the kernel's own code began when this was recorded: tells whether a saved kallsyms is of the same boot."""
    cgroups: dict[int, str] = field(default_factory=dict)
    build_ids: dict[str, str] = field(default_factory=dict)
    told_lost: int = 0
    """By the kernel, as soon as there is room again for saying so."""
    counted_lost: int = 0
    """By perf when it ends, from the kernel's counters: the same ones and those that were never told."""
    throttled: int = 0
    broken: int = 0

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
    build_id = body[36 : 36 + min(body[32], 20)].hex() if misc & _MMAP_BUILD_ID else ""
    _map(side, misc, Mapped(time, pid, start, length, offset, _name(body[64:]), build_id))


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


NOWHERE = -1
_MOST_SPACES = 200_000
_MOST_MAPS = 65_536


@dataclass(slots=True)
class Space:
    pid: int
    maps: list[Mapped] = field(default_factory=list)
    """By start address."""

    def overlapped(self, mapped: Mapped) -> slice:
        first = bisect.bisect_right(self.maps, mapped.start, key=lambda other: other.start + other.length)
        last = bisect.bisect_left(self.maps, mapped.start + mapped.length, key=lambda other: other.start)
        return slice(first, max(first, last))


@dataclass(slots=True)
class Threads:
    """Every distinct (process, thread) once, and which each sample is of."""

    ids: I64
    pids: list[int]
    tids: list[int]
    _grouped: tuple[I64, I64] | None = None

    def grouped(self) -> tuple[I64, I64]:
        """The samples thread by thread, in order, and where each thread's begin."""
        if self._grouped is None:
            counts = np.bincount(self.ids, minlength=len(self.pids))
            begins = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
            self._grouped = grouping(self.ids, len(self.pids)), begins
        return self._grouped


@dataclass(slots=True)
class Spaces:
    all: list[Space] = field(default_factory=list)
    since: dict[int, list[tuple[int, int]]] = field(default_factory=dict)
    """By pid: from when on, which space."""
    names: dict[int, list[tuple[int, str]]] = field(default_factory=dict)
    """By tid: from when on, which name."""

    def of_samples(self, threads: Threads, times: U64) -> I64:
        return _by_time(threads.pids, threads, times, self.since)

    def names_of_samples(self, threads: Threads, times: U64) -> tuple[I64, list[str]]:
        """An index into the names returned, for each sample."""
        known: dict[str, int] = {}
        numbered = {
            tid: [(time, known.setdefault(name, len(known))) for time, name in history]
            for tid, history in self.names.items()
        }
        found = _by_time(threads.tids, threads, times, numbered)
        unnamed = np.flatnonzero(found == NOWHERE)
        if len(unnamed):
            idle = known.setdefault("swapper", len(known))
            stranger = known.setdefault("[unknown]", len(known))
            tids = np.array(threads.tids, np.uint32)[threads.ids[unnamed]]
            found[unnamed] = np.where(tids == 0, idle, stranger)
        return found, list(known)


def follow(changes: list[Change]) -> Spaces:
    """Replays names, forks and maps, which are in time order."""
    spaces = Spaces()
    current: dict[int, int] = {}
    for change in changes:
        match change:
            case Renamed():
                spaces.names.setdefault(change.tid, []).append((change.time, change.name))
                if change.is_exec and change.pid == change.tid:
                    _begin(spaces, current, change.pid, change.time, [])
            case Forked():
                if change.pid != change.parent_pid:
                    inherited = spaces.all[current[change.parent_pid]].maps if change.parent_pid in current else []
                    _begin(spaces, current, change.pid, change.time, inherited)
                history = spaces.names.get(change.parent_tid) or spaces.names.get(change.parent_pid)
                if history:
                    spaces.names.setdefault(change.tid, []).append((change.time, history[-1][1]))
            case Mapped():
                _lay(spaces, current, change)
    return spaces


def _begin(spaces: Spaces, current: dict[int, int], pid: int, time: int, maps: list[Mapped]) -> None:
    if len(spaces.all) < _MOST_SPACES:
        current[pid] = len(spaces.all)
        spaces.all.append(Space(pid, maps.copy()))
        spaces.since.setdefault(pid, []).append((time, current[pid]))


def _lay(spaces: Spaces, current: dict[int, int], mapped: Mapped) -> None:
    if mapped.pid not in current:
        _begin(spaces, current, mapped.pid, 0, [])
    if mapped.pid not in current or not mapped.length:
        return
    space = spaces.all[current[mapped.pid]]
    below = space.overlapped(mapped)
    covered = space.maps[below]
    if covered and any(_is_other(old, mapped) for old in covered):
        _begin(spaces, current, mapped.pid, mapped.time, space.maps)
        space = spaces.all[current[mapped.pid]]
    if len(space.maps) < _MOST_MAPS:
        space.maps[below] = [*_left_over(covered, mapped), mapped, *_right_over(covered, mapped)]


def _is_other(old: Mapped, new: Mapped) -> bool:
    return (old.path, old.start - old.offset) != (new.path, new.start - new.offset)


def _left_over(covered: list[Mapped], mapped: Mapped) -> list[Mapped]:
    return [old._replace(length=mapped.start - old.start) for old in covered[:1] if old.start < mapped.start]


def _right_over(covered: list[Mapped], mapped: Mapped) -> list[Mapped]:
    end = mapped.start + mapped.length
    return [
        old._replace(start=end, length=old.start + old.length - end, offset=old.offset + end - old.start)
        for old in covered[-1:]
        if old.start + old.length > end
    ]


def _by_time(owners: list[int], threads: Threads, times: U64, history: dict[int, list[tuple[int, int]]]) -> I64:
    """The value that the owner of each thread had at each time: most owners never changed and need no search."""
    first = np.array([history[owner][0][1] if owner in history else NOWHERE for owner in owners], np.int64)
    found = first[threads.ids] if len(threads.ids) else threads.ids
    changed = [number for number, owner in enumerate(owners) if len(history.get(owner, ())) > 1]
    if not changed:
        return found
    order, bounds = threads.grouped()
    for number in changed:
        mine = order[bounds[number] : bounds[number + 1]]
        begins = np.array([time for time, _ in history[owners[number]]], np.uint64)
        values = np.array([value for _, value in history[owners[number]]], np.int64)
        found[mine] = values[np.maximum(np.searchsorted(begins, times[mine], side="right") - 1, 0)]
    return found
