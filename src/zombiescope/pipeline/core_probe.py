# SPDX-License-Identifier: Apache-2.0
"""The agent's eye on the cores: once a second, saturated seconds by what held the core, and each stretch as an event."""

from __future__ import annotations

from collections import deque

from zombiescope.analysis.core_saturation import SaturationWatch
from zombiescope.facts.agent import MetricSample, Occurrence, Reading
from zombiescope.facts.cores import CoreMode, CoresSeen, Stretch
from zombiescope.facts.gap import Gap
from zombiescope.facts.metric_names import CORE_SATURATED
from zombiescope.host.access import Host
from zombiescope.probes.readers.cpu_time import read_cpu_time

INTERVAL_SECONDS = 1.0
WINDOW_SECONDS = 600.0
"""How far back a finding looks."""
_MOST_STRETCHES = 500
_MOST_EVENTS_A_MINUTE = 30


class CoreProbe:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._watch = SaturationWatch()
        self._began: float | None = None
        self._recent: deque[Stretch] = deque(maxlen=_MOST_STRETCHES)
        self._minute, self._told, self._untold = 0.0, 0, 0

    def read(self) -> Reading | Gap:
        look = read_cpu_time(self._host)
        if isinstance(look, Gap):
            return Reading(gap=look, facts={"cores": look})
        ended = self._watch.take(look)
        self._began = look.at if self._began is None or self._began > look.at else self._began
        self._recent.extend(ended)
        since = max(self._began, look.at - WINDOW_SECONDS)
        while self._recent and self._recent[0].begin + self._recent[0].seconds < since:
            self._recent.popleft()
        seen = CoresSeen(
            since,
            look.at - since,
            INTERVAL_SECONDS,
            len(look.cores),
            tuple(sorted([*self._recent, *self._watch.unfinished()], key=lambda each: each.begin)),
        )
        seconds = {mode: self._watch.seconds.get(mode, 0.0) for mode in CoreMode}
        return Reading(
            tuple(MetricSample(CORE_SATURATED, (mode,), value) for mode, value in seconds.items()),
            {"saturated_seconds": sum(seconds.values())},
            happened=self._events(ended, look.at) if ended else (),
            facts={"cores": seen},
        )

    def close(self) -> None:
        """Holds nothing open."""

    def _events(self, ended: list[Stretch], now: float) -> tuple[Occurrence, ...]:
        """A machine whose cores are always saturated must not fill the history: so many a minute, then their number."""
        found: list[Occurrence] = []
        if now - self._minute >= 60 or now < self._minute:
            if self._untold:
                found.append(
                    Occurrence(now, "core-saturated", f"{self._untold:,} more stretches were not kept one by one")
                )
            self._minute, self._told, self._untold = now, 0, 0
        for stretch in ended:
            if self._told < _MOST_EVENTS_A_MINUTE:
                self._told += 1
                found.append(Occurrence(stretch.begin, "core-saturated", _words(stretch)))
            else:
                self._untold += 1
        return tuple(found)


def _words(stretch: Stretch) -> str:
    least = "at least " if stretch.is_cut else ""
    return f"core {stretch.core}: {least}{stretch.seconds:.1f} s, {stretch.share:.0%} {stretch.mode}"
