# SPDX-License-Identifier: Apache-2.0
"""The agent's eye on reclaim and quotas: every call of reclaim timed in the kernel, rates, stalls and throttling from files, of the
last ten minutes. Nothing runs between two readings where nobody reclaims. A long call is an event."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any

from zombiescope.analysis.pressure import point_between, pressure_of
from zombiescope.analysis.reclaim_since import reclaim_since
from zombiescope.facts.agent import Occurrence, Reading
from zombiescope.facts.gap import Gap
from zombiescope.facts.history import RECLAIM_SECONDS
from zombiescope.facts.pressure import PressureLook, PressurePoint, PressureSeen
from zombiescope.facts.reclaim import ReclaimSeen
from zombiescope.host.access import Host
from zombiescope.pipeline.quota_watch import QuotaWatch
from zombiescope.probes.readers.node import read_shape
from zombiescope.probes.readers.reclaim_passes import ReclaimWindow
from zombiescope.probes.readers.reclaim_rates import find_kswapd, read_reclaim_rates

INTERVAL_SECONDS = 10.0
WINDOW_SECONDS = 600.0
LONG_SECONDS = 1.0
_KEPT = int(WINDOW_SECONDS / INTERVAL_SECONDS) + 1


class ReclaimProbe:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._kswapd = find_kswapd(host)
        self._cores = read_shape(host).possible_cpus
        self._window = ReclaimWindow(host)
        self._quotas = QuotaWatch(host)
        self._calls: deque[ReclaimSeen] = deque(maxlen=_KEPT)
        self._last: PressureLook | None = None
        self._spans: deque[tuple[float, PressurePoint | None]] = deque(maxlen=_KEPT - 1)
        """When the look before began it, and what happened until the next one."""

    def read(self) -> Reading:
        facts: dict[str, Any] = {"pressure": self._pressure()}
        seen = self._window.seen()
        if isinstance(seen, Gap):
            return Reading(gap=seen, facts={**facts, "reclaim": seen})
        before = self._calls[-1] if self._calls else None
        self._calls.append(seen)
        facts["reclaim"] = reclaim_since(self._calls[0], seen, self._host.wall_clock())
        lately = reclaim_since(before, seen, self._host.wall_clock()) if before else None
        return Reading((), _remembered(lately), happened=_long_ones(lately), facts=facts)

    def close(self) -> None:
        self._window.close()

    def _pressure(self) -> PressureSeen:
        look = read_reclaim_rates(self._host, self._kswapd)
        if self._last is not None:
            self._spans.append((self._last.at, point_between(self._last, look)))
        self._last = look
        begin = self._spans[0][0] if self._spans else look.at
        points = tuple(point for _, point in self._spans if point is not None)
        return pressure_of(points, begin, look, self._quotas.throttled(), self._cores)


def _remembered(lately: ReclaimSeen | None) -> Mapping[str, float]:
    """A pass has a length only when one was seen."""
    if lately is None or not lately.calls:
        return {}
    seconds = sum(kind.seconds for kind in lately.kinds)
    return {RECLAIM_SECONDS: seconds / lately.calls, "reclaim_cpu_seconds": lately.cpu_seconds}


def _long_ones(lately: ReclaimSeen | None) -> tuple[Occurrence, ...]:
    return tuple(
        Occurrence(kind.longest_at, "reclaim-pass", f"{kind.kind}: {kind.longest_seconds:.1f} s, {kind.calls:,} calls")
        for kind in (lately.kinds if lately else ())
        if kind.longest_at is not None and kind.longest_seconds >= LONG_SECONDS
    )
