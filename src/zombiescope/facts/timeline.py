# SPDX-License-Identifier: Apache-2.0
"""What happened when: marks of several kinds on one axis, each kind with the time in which it was watched."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


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
