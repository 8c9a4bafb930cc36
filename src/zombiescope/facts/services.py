# SPDX-License-Identifier: Apache-2.0
"""What a window saw of the services: those that loop, those that nothing needs. Only what is worth telling, so that a recording
can keep it; `audit` has all of them."""

from __future__ import annotations

from typing import NamedTuple


class ServiceLoop(NamedTuple):
    name: str
    kind: str
    """`unit`: systemd restarts it; `inside`: children come and go inside it; `container`: a runtime restarts it; `pod`: kubelet
    restarts a container of its."""
    restarts: int
    why: str
    source: str
    every_seconds: float | None = None
    """Between two restarts, where it was seen or is configured."""
    need: str = "unknown"
    """needed, unneeded or unknown."""
    maker: str = ""
    """Whose it is, where the name does not say it."""
    ended: str = ""
    """How it ended last: `OOMKilled, exit code 137`; empty where nobody said."""


class UnitRestart(NamedTuple):
    """One automatic restart."""

    at: float
    """Seconds since the epoch."""
    unit: str


class UnneededService(NamedTuple):
    name: str
    enabled: str
    why: str
    path: str
    may_loop: bool
    from_vendor: bool
    restarts_a_day: float | None = None


class ServicesSeen(NamedTuple):
    at: float
    seconds: float
    """How long was watched."""
    starting: int
    """Services that something starts."""
    loops: tuple[ServiceLoop, ...]
    unneeded: tuple[UnneededService, ...]
    was_systemd_asked: bool
    """Else restarts by systemd are not known."""
    were_files_read: bool
    """Else what is needed is not known."""
    timers: tuple[tuple[str, str], ...] = ()
    """Services that a timer starts, each with its timer; templates without their instance."""

    def timer_of(self, unit: str) -> str | None:
        return next((timer for service, timer in self.timers if service == unit), None)


class RealTimeTask(NamedTuple):
    pid: int
    name: str
    """Empty where a recording did not keep it."""
    policy: str
    """fifo, rr or deadline."""
    priority: int
    seconds: float
    """On a CPU in the window."""
    core: int | None = None
    """Where it ran last."""


class RealTimeSeen(NamedTuple):
    at: float
    seconds: float
    """How long was watched."""
    tasks: tuple[RealTimeTask, ...]
    """Those that ran, most time first."""
