# SPDX-License-Identifier: Apache-2.0
"""What reclaim cost whoever had to do it in a window, and who reads every cgroup's statistics, at what price."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from zombiescope.facts.lifecycle import Histogram


class ReclaimKind(StrEnum):
    DIRECT = "direct"
    """The machine was full, and the task that wanted memory had to find it."""
    LIMIT = "limit"
    """A memory cgroup was at its limit, or somebody asked (memory.reclaim, force_empty)."""


class ReclaimCalls(NamedTuple):
    kind: ReclaimKind
    calls: int
    fruitless: int
    """Gave back no page."""
    pages: int
    seconds: float
    cpu_seconds: float
    """Of `seconds`, on a core; known to a tick a call."""
    longest_seconds: float
    longest_at: float | None
    histogram: Histogram = Histogram()

    @property
    def mean_seconds(self) -> float:
        return self.seconds / self.calls if self.calls else 0.0


class ReclaimGroup(NamedTuple):
    """Calls at a limit, by the memory cgroup of the tasks that made them."""

    path: str
    """Printable."""
    limits: tuple[str, ...]
    """Itself and those above it that have a limit of memory: one of them was reached, and all below it was visited. None where
    somebody asked for the reclaim."""
    calls: int
    pages: int
    cpu_seconds: float


class ReclaimSeen(NamedTuple):
    seconds: float
    """Of the window."""
    kinds: tuple[ReclaimCalls, ...]
    unseen: int = 0
    """Calls that began while too many others were under way."""
    groups: tuple[ReclaimGroup, ...] = ()
    """Of the calls at a limit; those of cgroups that are gone are not among them, and none where nobody looked."""

    @property
    def calls(self) -> int:
        return sum(kind.calls for kind in self.kinds)

    @property
    def cpu_seconds(self) -> float:
        return sum(kind.cpu_seconds for kind in self.kinds)

    @property
    def worst(self) -> ReclaimCalls | None:
        called = [kind for kind in self.kinds if kind.calls]
        return max(called, key=lambda kind: kind.longest_seconds, default=None)


class Sweeper(NamedTuple):
    """Processes of one name that read cgroups' statistics again and again."""

    name: str
    processes: int
    user_seconds: float
    system_seconds: float

    @property
    def cpu_seconds(self) -> float:
        return self.user_seconds + self.system_seconds


class SweepBurst(NamedTuple):
    """Time in which processes of one name kept a core busy in the kernel."""

    at: float
    """When it began, to about a second."""
    name: str
    seconds: float
    """In the kernel."""


class SweepersSeen(NamedTuple):
    at: float
    seconds: float
    sweepers: tuple[Sweeper, ...]
    """Those that are running, the one that burns most first; none is no gap."""
    bursts: tuple[SweepBurst, ...] = ()
    """In order of time, the last perhaps cut off by the end of the window."""
