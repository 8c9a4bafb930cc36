# SPDX-License-Identifier: Apache-2.0
"""Names, forks and maps replayed: whose address space and name a sample has."""

import bisect
from dataclasses import dataclass, field

import numpy as np

from zombiescope.profiler.perf.side_records import Change, Forked, Mapped, Renamed
from zombiescope.profiler.stacks.arrays import I64, U64, grouping

NOWHERE = -1
_MOST_SPACES, _MOST_MAPS = 200_000, 65_536


@dataclass(slots=True)
class Space:
    pid: int
    maps: list[Mapped] = field(default_factory=list)
    """By start address."""


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
            ends = np.cumsum(np.bincount(self.ids, minlength=len(self.pids)))
            self._grouped = grouping(self.ids, len(self.pids)), np.append(0, ends)
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
            idle, stranger = (known.setdefault(name, len(known)) for name in ("swapper", "[unknown]"))
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
    end = mapped.start + mapped.length
    first = bisect.bisect_right(space.maps, mapped.start, key=lambda other: other.start + other.length)
    last = max(first, bisect.bisect_left(space.maps, end, key=lambda other: other.start))
    covered = space.maps[first:last]
    if any((old.path, old.start - old.offset) != (mapped.path, mapped.start - mapped.offset) for old in covered):
        _begin(spaces, current, mapped.pid, mapped.time, space.maps)
        space = spaces.all[current[mapped.pid]]
    if len(space.maps) < _MOST_MAPS:
        left = [old._replace(length=mapped.start - old.start) for old in covered[:1] if old.start < mapped.start]
        right = [
            old._replace(start=end, length=old.start + old.length - end, offset=old.offset + end - old.start)
            for old in covered[-1:]
            if old.start + old.length > end
        ]
        space.maps[first:last] = [*left, mapped, *right]


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
