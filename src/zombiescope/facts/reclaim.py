# SPDX-License-Identifier: Apache-2.0
"""What reclaim cost whoever had to do it in a window; reclaim, stalls, major faults and throttling on one time axis, looks a
second apart, and what happened between them; and who reads every cgroup's statistics, at what price.

Reclaim and throttling are different mechanisms: the quota of a cgroup throttles it whatever memory does. Shown side by side.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from zombiescope.facts.gap import Gap
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
        return max((kind for kind in self.kinds if kind.calls), key=lambda kind: kind.longest_seconds, default=None)


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


NO_GROUPS = Gap("pressure.points[].groups", "stalls were not followed by cgroup", "zombiescope doctor, on cgroup v2")

Stalls = Mapping[str, float]
"""By pressure file and kind, such as `memory.some`."""


class PressureLook(NamedTuple):
    at: float
    steady: float
    """On a clock that only goes forward."""
    vmstat: Mapping[str, int] | Gap
    stalls: Mapping[str, float] | Gap
    """Seconds since boot, such as `memory.some`: what the kernel's pressure files offer."""
    kswapd_seconds: float | None
    """Of all of them on a core; None where none is to be seen."""
    groups: Mapping[bytes, Stalls] | Gap = NO_GROUPS
    """The same as `stalls` of single cgroups, by path: of the parents that hold zombies."""


class Throttle(NamedTuple):
    periods: int
    throttled: int
    """Periods in which the quota ran out."""
    seconds: float
    """That its tasks waited, added up."""


class ThrottledGroup(NamedTuple):
    path: bytes
    periods: int
    throttled: int
    seconds: float

    @property
    def share(self) -> float:
        return self.throttled / self.periods if self.periods else 0.0


class PressurePoint(NamedTuple):
    """Between two looks. None where the counters do not tell."""

    at: float
    seconds: float
    direct_pages: float | None
    """Scanned a second, by tasks that wanted memory of a full machine."""
    kswapd_pages: float | None
    limit_pages: float | None
    """By all others: memory cgroups at their limits, and whoever asked."""
    major_faults: float | None
    kswapd_share: float | None
    """Of one core."""
    stalls: Stalls
    """Share of the time, by pressure file."""
    groups: Mapping[bytes, Stalls] = {}
    """The same of single cgroups."""


class PressureSeen(NamedTuple):
    began_at: float
    seconds: float
    cores: int | None
    points: tuple[PressurePoint, ...]
    throttled: tuple[ThrottledGroup, ...] | Gap
    """Cgroups with a quota that had a period in the window, the most throttled first."""
    gaps: tuple[Gap, ...] = ()
    groups: tuple[bytes, ...] | Gap = NO_GROUPS
    """Cgroups whose own stalls are in the points."""

    def mean(self, name: str) -> float | None:
        """Of a field of the points, over the time they cover; None where no point tells."""
        told = [(point.seconds, getattr(point, name)) for point in self.points]
        return _mean([(seconds, value) for seconds, value in told if value is not None])

    def stall(self, name: str) -> float | None:
        """Share of the window, such as of `memory.some`."""
        return _mean([(point.seconds, point.stalls[name]) for point in self.points if name in point.stalls])

    def group_stall(self, path: bytes, name: str) -> float | None:
        """The same of one cgroup."""
        told = [(point.seconds, point.groups.get(path, {})) for point in self.points]
        return _mean([(seconds, stalls[name]) for seconds, stalls in told if name in stalls])


def _mean(told: list[tuple[float, float]]) -> float | None:
    whole = sum(seconds for seconds, _ in told)
    return sum(seconds * value for seconds, value in told) / whole if whole > 0 else None


class Vitals(NamedTuple):
    """None: it is not available; `gaps` of the document say why."""

    at: float
    seconds: float
    zombies: int | None
    """Of the whole host, at the end of the window."""
    ours_first: int | None
    ours: int | None
    """Those that the plan is about, at the beginning and at the end."""
    restarts: int | None
    """Of the makers, in the window; a unit that waits for its next restart counts as one."""
    sweep_seconds: float | None
    saturated_seconds: float | None
    throttled_seconds: float | None

    @property
    def slope_per_hour(self) -> float | None:
        if self.ours is None or self.ours_first is None or self.seconds <= 0:
            return None
        return (self.ours - self.ours_first) / self.seconds * 3600


def vitals_of(plain: dict[str, Any]) -> Vitals:
    return Vitals(*(plain.get(name) for name in Vitals._fields))  # type: ignore[arg-type]
