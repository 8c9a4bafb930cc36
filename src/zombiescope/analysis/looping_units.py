# SPDX-License-Identifier: Apache-2.0
"""Which units systemd restarts over and over, from its own counters read every few minutes.

A count alone says little: what counts is how far it moved within the last hour, or a unit that waits for its next restart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from zombiescope.facts.agent import UnitRestarts

RESTARTS_TELLING = 3
_WINDOW_SECONDS = 3600.0
_MOST_READINGS = 32
_MOST_UNITS = 10


class LoopingUnits:
    """Remembers the readings of an hour."""

    def __init__(self) -> None:
        self._readings: deque[tuple[float, dict[str, int]]] = deque(maxlen=_MOST_READINGS)
        self.looping: dict[str, int] = {}
        """Automatic restarts of those that loop, the ten with most."""

    def take(self, at: float, units: Iterable[UnitRestarts]) -> None:
        now = {unit.name: unit for unit in units}
        while self._readings and at - self._readings[0][0] > _WINDOW_SECONDS:
            self._readings.popleft()
        found = {}
        for name, unit in now.items():
            # One that is not in an older reading had not restarted by then; a counter that fell began anew.
            before = min((counts.get(name, 0) for _, counts in self._readings), default=unit.restarts)
            is_waiting = unit.is_waiting and unit.restarts >= RESTARTS_TELLING
            if unit.restarts - before >= RESTARTS_TELLING or is_waiting:
                found[name] = unit.restarts
        self._readings.append((at, {name: unit.restarts for name, unit in now.items()}))
        ranked = sorted(found.items(), key=lambda each: (-each[1], each[0]))
        self.looping = dict(ranked[:_MOST_UNITS])
