# SPDX-License-Identifier: Apache-2.0
"""Which units started over, from births in the ledger: for hosts whose journal does not tell, and for loops inside a unit."""

from __future__ import annotations

from collections.abc import Mapping

from zombiescope.facts.agent import Occurrence
from zombiescope.facts.lifecycle import Counts

WHAT = "unit-restarted"
_PREFIX, _SUFFIX = "unit:", ".service"
_TOLD_SECONDS = 60.0
_MOST_UNITS = 512
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
        if unit not in self._untold and len(self._untold) >= _MOST_UNITS:
            self._forget(at)
        if unit in self._untold:
            self._untold[unit] += births
        elif len(self._untold) < _MOST_UNITS:
            self._untold[unit] = births - 1
        else:
            return
        self._born_at[unit] = at

    def _forget(self, at: float) -> None:
        for unit in [name for name, born in self._born_at.items() if not 0 <= at - born < _FORGOTTEN_SECONDS]:
            if not self._untold[unit]:
                del self._untold[unit], self._born_at[unit]
                self._told_at.pop(unit, None)
