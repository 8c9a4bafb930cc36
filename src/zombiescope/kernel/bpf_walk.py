# SPDX-License-Identifier: Apache-2.0
"""Drives the BPF walks: chunk after chunk, so that no run holds its core for long, and copies out what each one found: memory
cgroups and their pins, or processes and their open files with what each holds.

A run over cgroups resumes at the css where the last one stopped. If that was released meanwhile, the walk goes on beyond the
sibling before it (the kernel keeps them in order of birth); if all went, from their parent, and so on.
"""

import socket
import struct
from collections.abc import Callable
from contextlib import closing
from enum import IntEnum
from typing import NamedTuple

from zombiescope.facts.gap import Gap
from zombiescope.facts.zombies import Holder, Holders, PinKind
from zombiescope.kernel.bpf_object import BpfObject, BpfRefusedError, packaged
from zombiescope.kernel.raw import Clock, RawMemcg, RawPin, RawWalk

RECORDS, PINS, ARENA_BYTES = 1024, 4096, (1 << 20) + 256
RUN_LIMIT_NANOSECONDS = 4_000_000
_CHUNK_RECORDS, _MOST_LOST, _OVERLAP = 1000, 1000, 64
_RECORD, _PIN = struct.Struct("<8Q2q4Q12I"), struct.Struct("<3Q10I16s")
_ASKED, _ANSWERED = struct.Struct("<4Q6I"), struct.Struct("<5Q6I")


class Status(IntEnum):
    MORE = 0
    DONE = 1
    LOST = 2
    NO_MEMCG = 3
    RUNNING = 4


class Depth(NamedTuple):
    """How far to look into one zombie."""

    pins: int
    folios: int


COUNT_ONLY = Depth(0, 0)
# (kernel time spent so far, depth): whole zombies while the walk is cheap, samples when there are too many of them.
_DEPTHS = ((60_000_000, Depth(128, 1 << 20)), (110_000_000, Depth(4, 256)), (1 << 63, Depth(1, 16)))


class _Chunk(NamedTuple):
    records: bytes
    pins: bytes
    arena: bytes


class _Answer(NamedTuple):
    following: "_Place"
    """Where the next run goes on."""
    ran_ns: int
    jiffies: int
    monotonic_ns: int
    seen: int
    status: Status
    records: int
    pins: int
    arena: int
    hierarchy: int


class How(IntEnum):
    """How to go on from a place."""

    START = 0
    BELOW = 1
    AGAIN = 2
    BEYOND = 3


class _Place(NamedTuple):
    how: How = How.START
    css: int = 0
    serial: int = 0
    parent: int = 0
    after: int = 0
    """Below: only children born after this one."""


class Walker:
    """One loaded walker; `close` lets the kernel forget it."""

    def __init__(self, nodes: int) -> None:
        self.object = BpfObject(packaged("memcg_walk.blob"))
        self._nodes = nodes
        self._state = self.object.map_memory("bss", _ASKED.size + _ANSWERED.size, writable=True)
        self._records = self.object.map_memory("records", RECORDS * _RECORD.size)
        self._pins = self.object.map_memory("pins", PINS * _PIN.size)
        self._arena = self.object.map_memory("arena", ARENA_BYTES)

    def close(self) -> None:
        for memory in (self._state, self._records, self._pins, self._arena):
            memory.close()
        self.object.close()

    def run(self, program: str, place: _Place, depth: Depth, skip: int = 0) -> _Answer:
        limits = (place.how, _CHUNK_RECORDS, depth.pins, depth.folios, self._nodes, skip)
        _ASKED.pack_into(self._state, 0, place.css, place.serial, place.after, RUN_LIMIT_NANOSECONDS, *limits)
        self.object.run(program)
        css, serial, after, _, how, *_ = _ASKED.unpack_from(self._state)
        parent, ran, jiffies, now, seen, status, records, pins, arena, _, hierarchy = _ANSWERED.unpack_from(
            self._state, _ASKED.size
        )
        place = _Place(How(how), css, serial, parent, after)
        return _Answer(place, ran, jiffies, now, seen, Status(status), records, pins, arena, hierarchy)

    def copy(self, answer: _Answer) -> _Chunk:
        return _Chunk(
            self._records[: answer.records * _RECORD.size],
            self._pins[: answer.pins * _PIN.size],
            self._arena[: answer.arena],
        )


class _Progress(NamedTuple):
    memcgs: list[RawMemcg]
    runs: list[int]
    notes: list[str]


def walk_memcgs(
    nodes: int, wall_clock: Callable[[], float], depth: Depth | None = None, walker_type: type[Walker] = Walker
) -> RawWalk:
    """The whole tree. `depth` fixes how far to look into each zombie; without it the budget decides."""
    with closing(walker_type(nodes)) as walker:
        progress = _Progress([], [], [])
        last = _walk_tree(walker, progress, depth)
        clock = Clock(last.jiffies, last.monotonic_ns / 1e9, wall_clock())
        is_v2 = last.hierarchy == 0
        writeback = _walk_writeback(walker, progress) if is_v2 and depth is not COUNT_ONLY else []
        return RawWalk(progress.memcgs, writeback, clock, is_v2, progress.runs, progress.notes)


def _walk_tree(walker: Walker, progress: _Progress, fixed: Depth | None) -> _Answer:
    place, lost, spent = _Place(), 0, 0
    while True:
        answer = walker.run("walk_memcg", place, fixed or next(depth for limit, depth in _DEPTHS if spent < limit))
        progress.runs.append(answer.ran_ns)
        spent += answer.ran_ns
        if answer.status is Status.NO_MEMCG:
            raise BpfRefusedError("cannot walk the memory cgroups with BPF", "this kernel has no memory controller")
        _take(progress, walker.copy(answer))
        if answer.status is Status.MORE:
            place = answer.following
        elif answer.status is Status.LOST and lost < _MOST_LOST:
            lost += 1
            lost_at = answer.following if answer.following.css != place.css else place
            place = _place_before(progress.memcgs, lost_at)
        else:
            if answer.status is not Status.DONE:
                progress.notes.append(
                    f"the walk lost its place {lost} times while cgroups were being released and gave up"
                )
            if lost:
                progress.memcgs[:] = _once(progress.memcgs)
            return answer


def _place_before(memcgs: list[RawMemcg], lost: _Place) -> _Place:
    """A place that was released, and all below it before: go on beyond its next elder sibling that we saw, or, where it had
    none or that one is gone too (thousands of siblings are released at once), with the children of its parent that are younger."""
    is_sibling_gone = lost.how is How.BEYOND
    for memcg in reversed(memcgs):
        if not is_sibling_gone and memcg.parent == lost.parent and memcg.serial < lost.serial:
            return _Place(How.BEYOND, memcg.css, memcg.serial, memcg.parent)
        if memcg.css == lost.parent:
            return _Place(How.BELOW, memcg.css, memcg.serial, memcg.parent, lost.serial)
    return _Place()


def _take(progress: _Progress, chunk: _Chunk) -> None:
    """Records are made as plain tuples are: `_make` would cost a call for each of tens of thousands."""
    pins, names, make = _pins_of(chunk), chunk.arena, tuple.__new__
    add = progress.memcgs.append
    for row in _RECORD.iter_unpack(chunk.records):
        name, size, first, count = row[22:]
        mine = (pins[first],) if count == 1 else tuple(pins[first : first + count])
        add(make(RawMemcg, row[:22] + (names[name : name + size - 1] if size else b"", mine)))  # noqa: RUF005 (half the time)


def _pins_of(chunk: _Chunk) -> list[RawPin]:
    names, make = chunk.arena, tuple.__new__
    return [
        make(RawPin, row[:11] + (names[row[11] : row[11] + row[12]], row[13]))  # noqa: RUF005 (half the time)
        for row in _PIN.iter_unpack(chunk.pins)
    ]


def _once(memcgs: list[RawMemcg]) -> list[RawMemcg]:
    """Each cgroup once, as it was seen first: a walk that began again has seen some twice."""
    first: dict[int, RawMemcg] = {}
    for memcg in memcgs:
        first.setdefault(memcg.serial, memcg)
    return list(first.values())


def _walk_writeback(walker: Walker, progress: _Progress) -> list[RawPin]:
    """Dead writeback structures have no order to resume by: skip those seen, with an overlap against removals."""
    found: dict[tuple[int, int, int], RawPin] = {}
    skip, status = 0, Status.MORE
    while status is Status.MORE:
        answer = walker.run("walk_writeback", _Place(), Depth(8, 0), skip)
        progress.runs.append(answer.ran_ns)
        for pin in _pins_of(walker.copy(answer)):
            found.setdefault((pin.css, pin.device, pin.inode), pin)
        status, skip = answer.status, max(answer.seen - _OVERLAP, skip + 1)
    if status is not Status.DONE:
        progress.notes.append("the list of file systems could not be followed to its end")
    return list(found.values())


_MOST_RUNS, _HOLDERS, _HOLDERS_OVERLAP = 5000, 4096, 16
_HOLDER = struct.Struct("<2Q6I16s")
_HOLDERS_ASKED, _HOLDERS_ANSWERED = struct.Struct("<Q2I"), struct.Struct("<Q4I")
_KINDS = {1: PinKind.TASK, 2: PinKind.NAMESPACE, 3: PinKind.SOCKET}
_CUT_SHORT = Gap("zombies[].pins[].holder", "the list of processes could not be followed to its end", "run it again")


def find_holders() -> Holders:
    """Every process is looked at once. Processes that end meanwhile shift the list, so each run begins a little earlier."""
    found: dict[tuple[int, PinKind, int, int], Holder] = {}
    with BpfObject(packaged("holders.blob")) as program:
        state = program.map_memory("bss", _HOLDERS_ASKED.size + _HOLDERS_ANSWERED.size, writable=True)
        buffer = program.map_memory("holders", _HOLDERS * _HOLDER.size)
        task, file, status = 0, 0, int(Status.MORE)
        for _ in range(_MOST_RUNS):
            _HOLDERS_ASKED.pack_into(state, 0, RUN_LIMIT_NANOSECONDS, task, file)
            program.run("walk_tasks")
            _, status, count, task, file = _HOLDERS_ANSWERED.unpack_from(state, _HOLDERS_ASKED.size)
            for holder in map(_holder, _HOLDER.iter_unpack(buffer[: count * _HOLDER.size])):
                found[holder.serial, holder.kind, holder.process, holder.inode] = holder
            if status != Status.MORE:
                break
            if not file:
                task = max(task - _HOLDERS_OVERLAP, 0)
        state.close()
        buffer.close()
    return Holders(tuple(found.values()), () if status == Status.DONE else (_CUT_SHORT,))


def _holder(row: tuple[int, int, int, int, int, int, int, int, bytes]) -> Holder:
    serial, inode, kind, process, parent, family, _, _, name = row
    said = _family(family) if _KINDS[kind] is PinKind.SOCKET else ""
    return Holder(serial, _KINDS[kind], process, name.partition(b"\0")[0], parent, inode, said)


def _family(number: int) -> str:
    try:
        return socket.AddressFamily(number).name.removeprefix("AF_").lower()
    except ValueError:
        return f"family {number}"
