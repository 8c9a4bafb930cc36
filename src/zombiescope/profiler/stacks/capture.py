# SPDX-License-Identifier: Apache-2.0
"""A capture ready for questions: one row a sample in time order, one tree of all stacks, and what is missing."""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from zombiescope.facts.gap import Gap
from zombiescope.profiler.stacks.arrays import I64, U8, U16, U32, U64, Flags, Numbers
from zombiescope.profiler.stacks.call_tree import CallTree

KERNEL_MODE, USER_MODE, GUEST_KERNEL_MODE, GUEST_USER_MODE = 1, 2, 4, 5
_KERNEL_MODES = (KERNEL_MODE, GUEST_KERNEL_MODE)
_OF_PROCESSES = ("[unknown]", "[vdso]", "[vsyscall]", "[stack", "[heap]", "[anon", "[uprobes]")
IDLE_ROUTINES = frozenset(
    (
        "pv_native_safe_halt",
        "native_safe_halt",
        "acpi_safe_halt",
        "default_idle",
        "default_idle_call",
        "default_enter_idle",
        "cpuidle_enter_state",
        "cpuidle_enter",
        "call_cpuidle",
        "do_idle",
        "cpuidle_idle_call",
        "arch_cpu_idle",
        "cpu_idle_poll",
        "poll_idle",
        "mwait_idle",
        "acpi_idle_enter",
        "acpi_idle_do_entry",
        "acpi_processor_ffh_cstate_enter",
        "intel_idle",
        "intel_idle_irq",
        "intel_idle_ibrs",
        "intel_idle_xstate",
        "cpu_do_idle",
        "arch_cpu_idle_enter",
        "psci_enter_idle_state",
        "io_idle",
        "amd_e400_idle",
        "xen_safe_halt",
    )
)


class Clock(NamedTuple):
    """One moment on several clocks: nanoseconds since the epoch, on the clock of the samples, and on that of the kernel's log."""

    wall_ns: int
    sample_ns: int
    log_ns: int | None = None
    """None: the recorder did not look."""

    def on_wall(self, sample_ns: int) -> int:
        return self.wall_ns + sample_ns - self.sample_ns

    def on_log(self, sample_ns: int) -> int:
        """Where nobody looked the clocks are taken for one: they part by some seconds in months."""
        return sample_ns - (0 if self.log_ns is None else self.sample_ns - self.log_ns)


class About(NamedTuple):
    source: str
    """What it was made from, as a person would say it."""
    host: str | None = None
    kernel: str | None = None
    clock: Clock | None = None
    rate_hz: float | None = None
    lost: int = 0
    throttled: int = 0
    has_time: bool = True
    gaps: tuple[Gap, ...] = ()
    ring: str = ""
    """The mark of the rolling recording that stored it and may remove it; empty for what was imported."""
    serial: int = 0
    """Which segment of its ring it is: they are counted from 1 on, whatever a clock says."""
    boot: str = ""
    """Of the machine: the sample clock of one boot is not that of another."""


class Stored(NamedTuple):
    """A capture in a folder."""

    path: bytes
    name: str
    size_bytes: int
    written_at: float
    about: About | None
    """None: it is damaged."""


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
        return int((np.isin(self.mode, _KERNEL_MODES) & ~self.idle).sum())

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


class BrokenCapture(Exception):  # noqa: N818 (it names the thing, not the failure)
    def __init__(self, why: str, hint: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.hint = hint


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


def rows_of(capture: Capture, selection: Selection) -> tuple[slice, Flags | None]:
    """A slice of rows, and which of them count; None means all of them."""
    rows = _slice(capture, selection)
    wanted: list[Flags] = []
    if not selection.with_idle:
        wanted.append(~capture.idle[rows])
    numbers = ((capture.cpu, selection.cpus), (capture.pid, selection.pids), (capture.tid, selection.tids))
    wanted += [_is_one_of(column[rows], values) for column, values in numbers if values]
    for column, names, globs in (
        (capture.comm, capture.comms, selection.comms),
        (capture.cgroup, capture.cgroups, selection.cgroups),
        (capture.event, capture.events, selection.events),
    ):
        if globs:
            matching = np.array([any(fnmatch.fnmatchcase(name, glob) for glob in globs) for name in names], bool)
            wanted.append(matching[column[rows]])
    if selection.side != "both":
        modes = _KERNEL_MODES if selection.side == "kernel" else (USER_MODE, GUEST_USER_MODE)
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


def row_numbers(capture: Capture, selection: Selection) -> I64:
    rows, wanted = rows_of(capture, selection)
    numbers = np.arange(rows.start, rows.stop, dtype=np.int64)
    return numbers if wanted is None else numbers[wanted]
