# SPDX-License-Identifier: Apache-2.0
"""What is remembered of a node: samples of numbers, and events. Raw facts; their meaning is computed anew each time.

Every series is described in `facts/series.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

MAKER_PREFIX = "maker."
FINDING_SEVERITY = "finding-severity"
"""What happened to a finding that is there: it became so severe."""
RECLAIM_SECONDS = "reclaim_pass_seconds"
JOB_FAILURE, JOB_SUCCESS, ACTOR_FAILURE = "job failure", "job success", "actor failure"
"""What a mark of a job's end is called, and of the death of a part of one."""


class Sample(NamedTuple):
    number: int
    """Grows by one with each record of a store, whatever the clock does; never used twice."""
    at: float
    """Seconds since the epoch."""
    boot: str
    values: Mapping[str, float]
    """By series; a number that was not available is left out."""


class KeptCapture(NamedTuple):
    """A profile of that time, which others may ask for."""

    name: str
    begin: float
    end: float
    why: str
    """It was kept for this; empty: it is one of a ring."""
    folder: str = ""
    """Where it lies, if a command must be told."""


class Happening(NamedTuple):
    """Something that happened once: the agent began, ended, lost its store, a finding came or went."""

    number: int
    at: float
    boot: str
    what: str
    detail: str


class Trouble(NamedTuple):
    """Why something of the store cannot be read or kept."""

    what: str
    why: str


class Interval(NamedTuple):
    begin: float
    end: float

    @property
    def seconds(self) -> float:
        return max(self.end - self.begin, 0.0)


class Mark(NamedTuple):
    at: float
    """Seconds since the epoch."""
    what: str
    detail: str = ""


class Timeline(NamedTuple):
    begin: float
    end: float
    marks: tuple[Mark, ...]
    """In order of time."""
    watched: Mapping[str, tuple[Interval, ...]]
    """By kind of mark: when it would have been seen, in order and without overlap. What is not in it, nobody watched."""
    zombies: tuple[tuple[float, float], ...] = ()
    """Time and number, from history."""

    def times(self, what: str) -> tuple[float, ...]:
        return tuple(mark.at for mark in self.marks if mark.what == what)

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(mark.what for mark in self.marks))
