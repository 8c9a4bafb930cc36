# SPDX-License-Identifier: Apache-2.0
"""A capture ready for questions: one row a sample in time order, one tree of all stacks, and what is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from zombiescope.facts.gap import Gap
from zombiescope.profiling.arrays import U8, U16, U32, U64, Flags
from zombiescope.profiling.call_tree import CallTree
from zombiescope.profiling.perf_file import Clock

KERNEL_MODE, USER_MODE, GUEST_KERNEL_MODE, GUEST_USER_MODE = 1, 2, 4, 5
_OF_PROCESSES = ("[unknown]", "[vdso]", "[vsyscall]", "[stack", "[heap]", "[anon", "[uprobes]")
_IDLE_ROUTINES = frozenset(
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
    def seconds(self) -> float:
        return (int(self.time[-1]) - int(self.time[0])) / 1e9 if len(self.time) else 0.0


def is_kernel_file(file: str) -> bool:
    """The kernel itself, a module (`[ena]`) or a program of it (`[bpf]`); some of a process's own maps are written so too."""
    return file.startswith("[") and not file.startswith(_OF_PROCESSES)


def judge_idle(pid: U32, node: U32, tree: CallTree, names: list[str]) -> Flags:
    """Idle is what the leaf says: interrupt work on an idle core is work."""
    is_idle_name = np.array([name in _IDLE_ROUTINES for name in names] or [False], bool)
    frames = tree.frame[node]
    inside = frames < len(is_idle_name)
    idle: Flags = np.zeros(len(node), bool)
    idle[inside] = is_idle_name[frames[inside]]
    idle &= pid == 0
    return idle
