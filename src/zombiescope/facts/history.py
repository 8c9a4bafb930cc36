# SPDX-License-Identifier: Apache-2.0
"""What is remembered of a node: samples of numbers, and events. Raw facts; their meaning is computed anew each time.

Series names: `counted live zombies ids births deaths releases lost`, `bytes.KIND`, `kernel_bytes`, `sweep_seconds`,
`maker.NAME`, `saturated_seconds` (of all cores, since the agent began), `uptime` (of the machine), `lifetime_seconds` and
`as_zombie_seconds` (medians since the agent began, as powers of two), `ids` (of the kernel: live, and zombies in swap),
`reclaim_pass_seconds` (mean of the calls since the look before, where there were any).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

MAKER_PREFIX = "maker."
RECLAIM_SECONDS = "reclaim_pass_seconds"


class Sample(NamedTuple):
    number: int
    """Grows by one with each record of a store, whatever the clock does; never used twice."""
    at: float
    """Seconds since the epoch."""
    boot: str
    values: Mapping[str, float]
    """By series; a number that was not available is left out."""


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
