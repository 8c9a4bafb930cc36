# SPDX-License-Identifier: Apache-2.0
"""Which samples a question is about: a range of time, cores, processes, threads, cgroups, kernel or user, with or without idle."""

from __future__ import annotations

import fnmatch
from typing import NamedTuple

import numpy as np

from zombiescope.profiling.arrays import I64, U32, Flags, Numbers
from zombiescope.profiling.capture import GUEST_KERNEL_MODE, GUEST_USER_MODE, KERNEL_MODE, USER_MODE, Capture


class Selection(NamedTuple):
    begin: float | None = None
    """Seconds after the capture's first sample."""
    end: float | None = None
    cpus: tuple[int, ...] = ()
    comms: tuple[str, ...] = ()
    """Globs of thread names."""
    pids: tuple[int, ...] = ()
    tids: tuple[int, ...] = ()
    cgroups: tuple[str, ...] = ()
    """Globs of paths."""
    events: tuple[str, ...] = ()
    side: str = "both"
    """`kernel`, `user` or `both`: the mode in which the sample was taken."""
    with_idle: bool = False

    def between(self, begin: float | None, end: float | None) -> Selection:
        return Selection(
            begin,
            end,
            self.cpus,
            self.comms,
            self.pids,
            self.tids,
            self.cgroups,
            self.events,
            self.side,
            self.with_idle,
        )


def rows_of(capture: Capture, selection: Selection) -> tuple[slice, Flags | None]:
    """A slice of rows, and which of them count; None means all of them."""
    rows = _slice(capture, selection)
    wanted: list[Flags] = []
    if not selection.with_idle:
        wanted.append(~capture.idle[rows])
    if selection.cpus:
        wanted.append(_is_one_of(capture.cpu[rows], selection.cpus))
    if selection.pids:
        wanted.append(_is_one_of(capture.pid[rows], selection.pids))
    if selection.tids:
        wanted.append(_is_one_of(capture.tid[rows], selection.tids))
    for column, names, globs in (
        (capture.comm, capture.comms, selection.comms),
        (capture.cgroup, capture.cgroups, selection.cgroups),
        (capture.event, capture.events, selection.events),
    ):
        if globs:
            matching = np.array([any(fnmatch.fnmatchcase(name, glob) for glob in globs) for name in names], bool)
            wanted.append(matching[column[rows]])
    if selection.side != "both":
        modes = (KERNEL_MODE, GUEST_KERNEL_MODE) if selection.side == "kernel" else (USER_MODE, GUEST_USER_MODE)
        wanted.append(_is_one_of(capture.mode[rows], modes))
    return rows, np.logical_and.reduce(wanted) if wanted else None


def _is_one_of(column: Numbers, values: tuple[int, ...]) -> Flags:
    """A few comparisons are quicker than a search."""
    found: Flags = column == values[0]
    for value in values[1:]:
        found |= column == value
    return found


def _slice(capture: Capture, selection: Selection) -> slice:
    if not len(capture.time):
        return slice(0, 0)
    first = int(capture.time[0])
    bounds = [0, len(capture.time)]
    for index, seconds in enumerate((selection.begin, selection.end)):
        if seconds is not None:
            at = min(max(first + round(seconds * 1e9), 0), (1 << 64) - 1)
            bounds[index] = int(np.searchsorted(capture.time, np.uint64(at)))
    return slice(bounds[0], max(bounds))


def span_ns(capture: Capture, selection: Selection) -> tuple[int, int]:
    """When the range begins on the recorder's clock, and how long it is, in nanoseconds: no longer than the capture."""
    if not len(capture.time):
        return 0, 0
    first, last = int(capture.time[0]), int(capture.time[-1])
    begin = first if selection.begin is None else min(first + round(selection.begin * 1e9), last)
    end = last if selection.end is None else min(first + round(selection.end * 1e9), last)
    return begin, max(0, end - begin)


def nodes_of(capture: Capture, selection: Selection) -> U32:
    rows, wanted = rows_of(capture, selection)
    nodes = capture.node[rows]
    return nodes if wanted is None else nodes[wanted]


def row_numbers(capture: Capture, selection: Selection) -> I64:
    rows, wanted = rows_of(capture, selection)
    numbers = np.arange(rows.start, rows.stop, dtype=np.int64)
    return numbers if wanted is None else numbers[wanted]
