# SPDX-License-Identifier: Apache-2.0
"""A capture ready for questions: one row a sample in time order, one tree of all stacks, and what is missing."""

import fnmatch
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from zombiescope.profiler.stacks.about import IDLE_ROUTINES, About, BrokenCapture, Clock, Stored
from zombiescope.profiler.stacks.arrays import I64, U8, U16, U32, U64, Flags, Numbers
from zombiescope.profiler.stacks.call_tree import CallTree

__all__ = ["About", "BrokenCapture", "Clock", "Stored"]  # of a capture, but without numpy

KERNEL_MODE, USER_MODE, GUEST_KERNEL_MODE, GUEST_USER_MODE = 1, 2, 4, 5
_KERNEL_MODES = (KERNEL_MODE, GUEST_KERNEL_MODE)
_OF_PROCESSES = ("[unknown]", "[vdso]", "[vsyscall]", "[stack", "[heap]", "[anon", "[uprobes]")


@dataclass(frozen=True, slots=True)
class Capture:
    about: About
    time: U64
    """Nanoseconds on the recorder's clock, ascending."""
    cpu: U16
    pid: U32
    tid: U32
    mode: U8
    event: U8
    comm: U32
    cgroup: U32
    idle: Flags
    node: U32
    """Where in the tree the sample's stack ends."""
    weight: U64 | None
    """How much each sample counts; None: one each."""
    tree: CallTree
    frame_names: tuple[str, ...]
    frame_files: tuple[str, ...]
    comms: tuple[str, ...]
    events: tuple[str, ...]
    cgroups: tuple[str, ...]
    """Number 0 is 'not known'."""

    def __len__(self) -> int:
        return len(self.time)

    @property
    def began(self) -> float | None:
        """Seconds since the epoch; None: not known."""
        clock = self.about.clock
        return clock.on_wall(int(self.time[0])) / 1e9 if clock is not None and len(self.time) else None

    @property
    def kernel_samples(self) -> int:
        """At work in the kernel."""
        return int((in_kernel(self.mode) & ~self.idle).sum())

    @property
    def core_count(self) -> int:
        """That there are samples of."""
        return int(np.count_nonzero(np.bincount(self.cpu)))

    @property
    def seconds(self) -> float:
        return (int(self.time[-1]) - int(self.time[0])) / 1e9 if len(self.time) else 0.0


def is_kernel_file(file: str) -> bool:
    """The kernel itself, a module (`[ena]`) or a program of it (`[bpf]`); some of a process's own maps are written so too."""
    return file.startswith("[") and not file.startswith(_OF_PROCESSES)


def judge_idle(pid: U32, node: U32, tree: CallTree, names: list[str]) -> Flags:
    """Idle is what the leaf says: interrupt work on an idle core is work."""
    is_idle_name = np.array([name in IDLE_ROUTINES for name in names] or [False], bool)
    frames = tree.frame[node]
    inside = frames < len(is_idle_name)
    idle: Flags = np.zeros(len(node), bool)
    idle[inside] = is_idle_name[frames[inside]]
    idle &= pid == 0
    return idle


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


def matches(name: str, glob: str) -> bool:
    """Also where a name, as it stands, holds what a glob means otherwise: `operator[]`."""
    return fnmatch.fnmatchcase(name, glob) or name == glob


def rows_of(capture: Capture, selection: Selection) -> tuple[slice, Flags | None]:
    """A slice of rows, and which of them count; None means all of them."""
    rows = _slice(capture, selection)
    wanted: list[Flags] = [] if selection.with_idle else [~capture.idle[rows]]
    numbers = ((capture.cpu, selection.cpus), (capture.pid, selection.pids), (capture.tid, selection.tids))
    wanted += [_is_one_of(column[rows], values) for column, values in numbers if values]
    for column, names, globs in (
        (capture.comm, capture.comms, selection.comms),
        (capture.cgroup, capture.cgroups, selection.cgroups),
        (capture.event, capture.events, selection.events),
    ):
        if globs:
            matching = np.array([any(matches(name, glob) for glob in globs) for name in names], bool)
            wanted.append(matching[column[rows]])
    if selection.side != "both":
        modes = _KERNEL_MODES if selection.side == "kernel" else (USER_MODE, GUEST_USER_MODE)
        wanted.append(_is_one_of(capture.mode[rows], modes))
    return rows, np.logical_and.reduce(wanted) if wanted else None


def in_kernel(modes: Numbers) -> Flags:
    return _is_one_of(modes, _KERNEL_MODES)


def _is_one_of(column: Numbers, values: tuple[int, ...]) -> Flags:
    """A few comparisons are quicker than a search."""
    found: Flags = column == values[0]
    for value in values[1:]:
        found |= column == value
    return found


def _slice(capture: Capture, selection: Selection) -> slice:
    if not len(capture.time):
        return slice(0, 0)
    first, bounds = int(capture.time[0]), [0, len(capture.time)]
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


def row_numbers(capture: Capture, selection: Selection) -> I64:
    rows, wanted = rows_of(capture, selection)
    numbers = np.arange(rows.start, rows.stop, dtype=np.int64)
    return numbers if wanted is None else numbers[wanted]
