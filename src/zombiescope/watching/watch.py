# SPDX-License-Identifier: Apache-2.0
"""What a watch is, who tells of one to metrics and history, and how what was watched is judged: by `doctor` and agent alike."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeVar

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.engine import Diagnosis, diagnose
from zombiescope.facts.agent import Occurrence, Reading
from zombiescope.facts.gap import Gap

Seen_co = TypeVar("Seen_co", covariant=True)


class Watch(Protocol[Seen_co]):
    """One subject. Its driver says how often it looks; what costs much belongs into `seen`."""

    def look(self) -> None:
        """Where the kernel counts by itself there is nothing to do."""
        return

    def seen(self) -> Seen_co | Gap:
        """Since it was opened, or of the last minutes."""
        ...

    def close(self) -> None:
        """Most hold nothing open."""
        return


class Filling(Protocol):
    def fill(self, case: Case) -> Case:
        """The case with what was seen, in the fields of its subject."""
        ...


class Teller(Filling, Protocol):
    """Drives a watch for the agent, and turns what it saw into metrics, numbers for the history and events."""

    def read(self) -> Reading | Gap: ...

    def fill(self, case: Case) -> Case:
        """Some tell of events alone."""
        return case

    def close(self) -> None:
        """Most hold nothing open."""
        return


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
