# SPDX-License-Identifier: Apache-2.0
"""Which units systemd restarts over and over, from its own counters read every few minutes.

A count alone says little: what counts is how far it moved within the last hour, or a unit that waits for its next restart.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from zombiescope.facts.agent import Occurrence, UnitRestarts
from zombiescope.facts.lifecycle import Counts

RESTARTS_TELLING = 3
_WINDOW_SECONDS = 3600.0
_MOST_READINGS = 32
MOST_UNITS = 6


class LoopingUnits:
    """Remembers the readings of an hour."""

    def __init__(self) -> None:
        self._readings: deque[tuple[float, dict[str, int]]] = deque(maxlen=_MOST_READINGS)
        self.looping: dict[str, int] = {}
        """Automatic restarts of those that loop, the six with most."""

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
        self.looping = dict(ranked[:MOST_UNITS])


WHAT = "unit-restarted"
_PREFIX, _SUFFIX = "unit:", ".service"
_TOLD_SECONDS = 60.0
_MOST_STARTED = 512
_FORGOTTEN_SECONDS = 3600.0


class UnitStarts:
    """`take` what each reading of the ledger booked by maker. A unit is told at most once a minute, with the number since. One that
    began nothing for an hour makes way when there is no room for another."""

    def __init__(self) -> None:
        self._born_at: dict[str, float] = {}
        self._untold: dict[str, int] = {}
        self._told_at: dict[str, float] = {}

    def take(self, at: float, lately: Mapping[str, Counts]) -> tuple[Occurrence, ...]:
        for maker, counts in lately.items():
            if counts.births and maker.startswith(_PREFIX) and maker.endswith(_SUFFIX):
                self._add(at, maker.removeprefix(_PREFIX), counts.births)
        found = []
        for unit, births in self._untold.items():
            if births and not 0 <= at - self._told_at.get(unit, float("-inf")) < _TOLD_SECONDS:
                found.append(Occurrence(at, WHAT, f"{unit}: {births:,} cgroup{'s' if births != 1 else ''} born"))
                self._untold[unit], self._told_at[unit] = 0, at
        return tuple(found)

    def _add(self, at: float, unit: str, births: int) -> None:
        """The first birth of a unit is its start; those after it mean that it began again, or something inside it did."""
        if unit not in self._untold and len(self._untold) >= _MOST_STARTED:
            self._forget(at)
        if unit in self._untold:
            self._untold[unit] += births
        elif len(self._untold) < _MOST_STARTED:
            self._untold[unit] = births - 1
        else:
            return
        self._born_at[unit] = at

    def _forget(self, at: float) -> None:
        for unit in [name for name, born in self._born_at.items() if not 0 <= at - born < _FORGOTTEN_SECONDS]:
            if not self._untold[unit]:
                del self._untold[unit], self._born_at[unit]
                self._told_at.pop(unit, None)
