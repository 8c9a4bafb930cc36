# SPDX-License-Identifier: Apache-2.0
"""What the kernel itself said of starved cores and resetting network cards: one event a line, with its time, device, queue and CPU.

Lines that user space wrote into the kernel's log are counted and not believed, unless the reader was told to (the lab does).
"""

from enum import StrEnum
from typing import NamedTuple


class LogSource(StrEnum):
    KMSG = "kmsg"
    KLOG = "klogctl"
    """The call, where the device is refused: a container."""
    JOURNAL = "journal"


class LogEventKind(StrEnum):
    NIC = "nic"
    SOFT_LOCKUP = "soft-lockup"
    HARD_LOCKUP = "hard-lockup"
    RCU_STALL = "rcu-stall"
    HUNG_TASK = "hung-task"
    WORKQUEUE = "workqueue"
    OUT_OF_MEMORY = "out-of-memory"
    REAL_TIME = "real-time"


class NicStep(StrEnum):
    """What one line says of a reset: why it comes, that it comes, that it is over."""

    SYMPTOM = "symptom"
    CAUSE = "cause"
    BEGUN = "begun"
    DONE = "done"
    FAILED = "failed"


class ResetReason(StrEnum):
    """Bounded: these are label values of a metric."""

    POLL_STARVATION = "poll-starvation"
    MISSING_COMPLETIONS = "missing-completions"
    TRANSMIT_TIMEOUT = "transmit-timeout"
    KEEP_ALIVE = "keep-alive"
    ADMIN_QUEUE = "admin-queue"
    MISSING_INTERRUPT = "missing-interrupt"
    OTHER = "other"


class LogEvent(NamedTuple):
    at: float
    """Seconds since the epoch, from the kernel's own stamp."""
    kind: LogEventKind
    text: str
    """The line, printable, cut where it is long."""
    device: str = ""
    """The interface, or the bus address where the line names only that."""
    bus: str = ""
    step: NicStep | None = None
    queue: int | None = None
    reason: ResetReason | None = None
    cpu: int | None = None
    """Of NAPI, of the stuck core, of the stalled RCU: None where the line does not tell."""
    seconds: float | None = None
    """Since NAPI last ran, or how long the core or task was stuck."""
    is_scheduled: bool | None = None
    """NAPI was scheduled and had not run: the core starved it."""
    task: str = ""


class KernelLog(NamedTuple):
    source: LogSource
    since: float
    """Of the oldest line that was there; the log forgets what is older."""
    until: float
    lines: int
    """Lines of the kernel's own."""
    foreign: int
    """Lines of user space, not believed."""
    lost: int
    """Lines overwritten before they were read."""
    events: tuple[LogEvent, ...]
    believes_users: bool = False


class NicReset(NamedTuple):
    """The lines of one reset, folded."""

    at: float
    device: str
    reason: ResetReason
    queue: int | None = None
    napi_cpu: int | None = None
    since_napi_seconds: float | None = None
    is_over: bool | None = None
    """True when the driver said that it succeeded, False that it failed, None when it has not said."""
