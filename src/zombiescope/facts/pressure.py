# SPDX-License-Identifier: Apache-2.0
"""Reclaim, stalls, major faults and throttling on one time axis: looks a second apart, and what happened between them.

Reclaim and throttling are different mechanisms: the quota of a cgroup throttles it whatever memory does. Shown side by side.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from zombiescope.facts.gap import Gap


class PressureLook(NamedTuple):
    at: float
    steady: float
    """On a clock that only goes forward."""
    vmstat: Mapping[str, int] | Gap
    stalls: Mapping[str, float] | Gap
    """Seconds since boot, such as `memory.some`: what the kernel's pressure files offer."""
    kswapd_seconds: float | None
    """Of all of them on a core; None where none is to be seen."""


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
    stalls: Mapping[str, float]
    """Share of the time, by pressure file."""


class PressureSeen(NamedTuple):
    began_at: float
    seconds: float
    cores: int | None
    points: tuple[PressurePoint, ...]
    throttled: tuple[ThrottledGroup, ...] | Gap
    """Cgroups with a quota that had a period in the window, the most throttled first."""
    gaps: tuple[Gap, ...] = ()

    def mean(self, name: str) -> float | None:
        """Of a field of the points, over the time they cover; None where no point tells."""
        told = [(point.seconds, getattr(point, name)) for point in self.points if getattr(point, name) is not None]
        whole = sum(seconds for seconds, _ in told)
        return sum(seconds * value for seconds, value in told) / whole if whole > 0 else None

    def stall(self, name: str) -> float | None:
        """Share of the window, such as of `memory.some`."""
        told = [(point.seconds, point.stalls[name]) for point in self.points if name in point.stalls]
        whole = sum(seconds for seconds, _ in told)
        return sum(seconds * share for seconds, share in told) / whole if whole > 0 else None
