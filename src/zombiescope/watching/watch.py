# SPDX-License-Identifier: Apache-2.0
"""What a watch is, who tells of one to metrics and history, and how what was watched is judged: by `doctor` and agent alike."""

from collections.abc import Iterable
from typing import NamedTuple

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.engine import Diagnosis, diagnose
from zombiescope.facts.agent import Occurrence, Reading
from zombiescope.facts.gap import Gap


class Quiet:
    """A watch for which the kernel counts by itself, and which holds nothing open."""

    def look(self) -> None:
        """Nothing to do."""

    def close(self) -> None:
        """Nothing to do."""


class Filling:
    def fill(self, case: Case) -> Case:
        """The case with what was seen, in the fields of its subject; some tell of events alone."""
        return case


class Teller(Filling):
    """Drives a watch for the agent, and turns what it saw into metrics, numbers for the history and events."""

    def read(self) -> Reading | Gap:
        raise NotImplementedError

    def close(self) -> None:
        """Most hold nothing open."""


class Judged(NamedTuple):
    case: Case
    diagnosis: Diagnosis


def judge(case: Case, watched: Iterable[Filling]) -> Judged:
    """`case`: what was known without watching."""
    for each in watched:
        case = each.fill(case)
    return Judged(case, diagnose(case))


class Events:
    """Something that happens all the time must not fill the history: so many a minute one by one, then their number."""

    def __init__(self, what: str, called: str, most_per_minute: int) -> None:
        self._what, self._called, self._most = what, called, most_per_minute
        self._minute, self._told, self._untold = 0.0, 0, 0

    def take(self, now: float, happened: Iterable[tuple[float, str]]) -> tuple[Occurrence, ...]:
        """`happened`: when and what, each."""
        found: list[Occurrence] = []
        for at, words in happened:
            if not 0 <= now - self._minute < 60:
                if self._untold:
                    more = f"{self._untold:,} more {self._called} were not kept one by one"
                    found.append(Occurrence(now, self._what, more))
                self._minute, self._told, self._untold = now, 0, 0
            if self._told < self._most:
                self._told += 1
                found.append(Occurrence(at, self._what, words))
            else:
                self._untold += 1
        return tuple(found)
