# SPDX-License-Identifier: Apache-2.0
"""The agent's eye on those who read every cgroup's statistics: once a second, each burst of theirs in the kernel as an event."""

from __future__ import annotations

from collections.abc import Mapping

from zombiescope.analysis.sweeping import SweepBursts
from zombiescope.facts.agent import Occurrence, Reading
from zombiescope.facts.gap import Gap
from zombiescope.facts.reclaim import SweepBurst
from zombiescope.host.access import Host
from zombiescope.probes.readers.sweepers import TICKS_PER_SECOND, SweeperTime, read_sweeper_times, read_sweepers

INTERVAL_SECONDS = 1.0
WHAT = "stat-sweep"
_SEARCH_SECONDS = 300.0
"""Between two searches for such processes: each reads the name of every process."""
_MOST_EVENTS_A_MINUTE = 10


class SweepProbe:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._bursts = SweepBursts(TICKS_PER_SECOND)
        self._known: Mapping[int, SweeperTime] = {}
        self._searched: float | None = None
        self._minute, self._told, self._untold = 0.0, 0, 0

    def read(self) -> Reading | Gap:
        now = self._host.monotonic()
        if self._searched is None or now - self._searched >= _SEARCH_SECONDS:
            found = read_sweepers(self._host)
            if isinstance(found, Gap):
                return found
            self._known, self._searched = found, now
        elif not self._known:
            return Reading()
        else:
            self._known = read_sweeper_times(self._host, self._known)
        return Reading(happened=self._events(self._bursts.take(self._host.wall_clock(), self._known)))

    def close(self) -> None:
        """Holds nothing open."""

    def _events(self, ended: tuple[SweepBurst, ...]) -> tuple[Occurrence, ...]:
        """Somebody who always sweeps must not fill the history: so many a minute, then their number."""
        found: list[Occurrence] = []
        for burst in ended:
            if not 0 <= burst.at - self._minute < 60:
                if self._untold:
                    found.append(Occurrence(burst.at, WHAT, f"{self._untold:,} more sweeps were not kept one by one"))
                self._minute, self._told, self._untold = burst.at, 0, 0
            if self._told < _MOST_EVENTS_A_MINUTE:
                self._told += 1
                found.append(Occurrence(burst.at, WHAT, f"{burst.name}: {burst.seconds:.1f} s in the kernel"))
            else:
                self._untold += 1
        return tuple(found)
