# SPDX-License-Identifier: Apache-2.0
"""The agent's eye on CPU quotas: every cgroup that has one, once a minute, over the last ten minutes."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from zombiescope.analysis.pressure import derive_throttled
from zombiescope.facts.gap import Gap
from zombiescope.facts.pressure import Throttle, ThrottledGroup
from zombiescope.host.access import Host
from zombiescope.probes.readers.cpu_throttling import FACT, read_throttling

INTERVAL_SECONDS = 60.0
WINDOW_SECONDS = 600.0
_SOON = Gap(FACT, "watched for less than a minute so far", "look again in a minute")


class QuotaWatch:
    def __init__(self, host: Host) -> None:
        self._host = host
        self._looks: deque[Mapping[bytes, Throttle]] = deque(maxlen=int(WINDOW_SECONDS / INTERVAL_SECONDS) + 1)
        self._due = float("-inf")
        self._told: tuple[ThrottledGroup, ...] | Gap = _SOON

    def throttled(self) -> tuple[ThrottledGroup, ...] | Gap:
        """Reads when a minute is over, else tells again what it knew."""
        now = self._host.monotonic()
        if now >= self._due:
            self._due = now + INTERVAL_SECONDS
            self._look()
        return self._told

    def _look(self) -> None:
        found = read_throttling(self._host)
        if isinstance(found, Gap):
            self._looks.clear()
            self._told = found
            return
        self._looks.append(found)
        self._told = derive_throttled(self._looks[0], found) if len(self._looks) > 1 else _SOON
