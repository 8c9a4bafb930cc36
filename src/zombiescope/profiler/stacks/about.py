# SPDX-License-Identifier: Apache-2.0
"""What is known of a capture beside its samples, why it is worth keeping, and what a ring of captures covers. Without numpy: an
import by the scanner needs no more."""

from collections.abc import Iterable
from typing import NamedTuple

from zombiescope.facts.gap import Gap

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


class BrokenCapture(Exception):  # noqa: N818 (it names the thing, not the failure)
    def __init__(self, why: str, hint: str = "") -> None:
        super().__init__(why)
        self.why, self.hint = why, hint


_WEIGHTS = {"asked": 4, "alert": 4, "nic-reset": 3, "finding": 3, "left-behind": 2, "saturated-core": 1}
"""Which moments are worth keeping when there is no room for all of them; others weigh as little as the last."""


class Reason(NamedTuple):
    """Why a capture is worth keeping."""

    kind: str
    at: float
    """Seconds since the epoch."""
    words: str
    around: float | None = None
    """Seconds before and after it; None: as long as the ring keeps."""

    @property
    def weight(self) -> int:
        return _WEIGHTS.get(self.kind, 1)


def weightiest(reasons: Iterable[Reason]) -> str:
    """In words; empty where there is none."""
    best = max(reasons, key=lambda one: one.weight, default=None)
    return "" if best is None else f"{best.kind}: {best.words}"


class Note(NamedTuple):
    at: float
    """Seconds since the epoch."""
    boot: str
    steady: float
    """Seconds on the steady clock of that boot."""
    what: str
    """began, ended, full, room, failed, dropped, rate, clock, over (more room was taken than the ring has)."""
    words: str


class Hole(NamedTuple):
    """Time of which there is no capture."""

    begin: float
    """Seconds since the epoch, by the clock of then."""
    end: float
    seconds: float | None
    """By the steady clock; None: the machine was restarted, and its clock makes no sense of the time between."""
    why: str
    steady: tuple[float, float] | None = None
    """The same on the steady clock, where both ends are of one boot."""


class Coverage(NamedTuple):
    captures: int
    size_bytes: int
    begin: float | None
    end: float | None
    seconds: float
    """Of samples."""
    samples: int
    kept: int
    holes: tuple[Hole, ...]
    jumps: tuple[tuple[float, float], ...]
    """When a clock was set, and by how many seconds."""


class RawFiles(NamedTuple):
    """What a folder has of raw segments, as they were sampled: nobody has read them yet."""

    segments: int
    size_bytes: int
    latest: bytes
    symbols: bytes | None
    """The names of the kernel's functions that were kept when the latest was recorded."""
