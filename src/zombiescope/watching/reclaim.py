# SPDX-License-Identifier: Apache-2.0
"""Watch reclaim: every call timed in the kernel, by `ReclaimWindow`, which `doctor` and `scan --watch` read once, at the end. The
agent reads it every ten seconds, with rates, stalls and throttling of the same ten minutes. Nothing runs between two readings where
nobody reclaims."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING

from zombiescope.analysis.pressure import reclaim_since
from zombiescope.facts.agent import Occurrence, Reading
from zombiescope.facts.gap import Gap
from zombiescope.facts.history import RECLAIM_SECONDS
from zombiescope.facts.reclaim import ReclaimSeen
from zombiescope.host.access import Host
from zombiescope.probes.readers.reclaim_passes import ReclaimWindow
from zombiescope.watching.pressure import PressureWatch
from zombiescope.watching.watch import Teller

if TYPE_CHECKING:
    from zombiescope.diagnosis.case import Case

LONG_SECONDS = 1.0
_KEPT = ("memory.some", "memory.full", "cpu.some", "io.some")
_MOST_READINGS = 61


class ReclaimTeller(Teller):
    """A long call is an event."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._pressure = PressureWatch(host)
        self._window = ReclaimWindow(host)
        self._calls: deque[ReclaimSeen] = deque(maxlen=_MOST_READINGS)
        self._seen: ReclaimSeen | Gap | None = None
        """Of the last ten minutes."""

    def read(self) -> Reading:
        self._pressure.look()
        told, now = self._window.seen(), self._host.wall_clock()
        if isinstance(told, Gap):
            self._seen = told
            return Reading((), self._stalled(), gap=told)
        lately = reclaim_since(self._calls[-1], told, now) if self._calls else None
        self._calls.append(told)
        self._seen = reclaim_since(self._calls[0], told, now)
        return Reading((), {**self._stalled(), **_remembered(lately)}, happened=_long_ones(lately))

    def _stalled(self) -> dict[str, float]:
        """Shares of the last ten seconds, and for how long quotas held anybody back since the agent began."""
        found: dict[str, float] = {}
        point, throttled = self._pressure.latest, self._pressure.throttled_seconds
        if point is not None:
            found = {f"pressure.{name}": round(point.stalls[name], 4) for name in _KEPT if name in point.stalls}
            if point.kswapd_share is not None:
                found["kswapd_share"] = round(point.kswapd_share, 4)
        return found if throttled is None else {**found, "throttled_seconds": round(throttled, 3)}

    def fill(self, case: Case) -> Case:
        if self._seen is None:
            return case
        return case._replace(pressure=self._pressure.seen(), reclaim=self._seen)

    def close(self) -> None:
        self._window.close()


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
