# SPDX-License-Identifier: Apache-2.0
"""What is remembered of a node: samples of numbers, and events. Raw facts; their meaning is computed anew each time.

Every series is described in `facts/history.py`.
"""

from collections.abc import Mapping
from enum import StrEnum
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


CORE_PREFIX = "core."
"""A core, or several in a row where there are many: the highest share of kernel time among them, in percent."""
BORN_PREFIX, DIED_PREFIX, RELEASED_PREFIX = "born.", "died.", "released."


class SeriesKind(StrEnum):
    LEVEL = "level"
    COUNT = "count"
    """Only grows: shown as what it grew by per second."""
    SHARE = "share"
    HEAT = "heat"
    """One row of many in one lane."""


class Series(NamedTuple):
    name: str
    """With a `*` at its end: all that begin so."""
    title: str
    unit: str
    kind: SeriesKind
    lane: str
    maximum: float | None = None
    is_usual: bool = True
    """Shown without being asked for."""

    @property
    def is_prefix(self) -> bool:
        return self.name.endswith("*")


class Lane(NamedTuple):
    id: str
    title: str


LANES = (
    Lane("stock", "Zombies"),
    Lane("makers", "Zombies by maker"),
    Lane("events", "Born, died, released"),
    Lane("born", "Born, by maker"),
    Lane("died", "Died, by maker"),
    Lane("released", "Released, by maker"),
    Lane("bytes", "Held bytes"),
    Lane("kernel", "Kernel memory held"),
    Lane("sweep", "Sweep"),
    Lane("reclaim", "Reclaim"),
    Lane("pass", "Reclaim, one pass"),
    Lane("pressure", "Pressure"),
    Lane("throttled", "Throttled"),
    Lane("saturated", "Saturated cores"),
    Lane("cores", "Cores"),
    Lane("softirq", "Softirqs waited"),
    Lane("poll_tail", "Network polls, the longest waits"),
    Lane("polls", "Network polls waited"),
    Lane("resets", "Network resets"),
    Lane("sweepers", "Readers of statistics"),
    Lane("reclaiming", "Reclaim, processor time"),
    Lane("faults", "Major faults"),
    Lane("lifetimes", "Lifetimes"),
    Lane("population", "Memory cgroups"),
)
_L, _C, _S, _H = SeriesKind.LEVEL, SeriesKind.COUNT, SeriesKind.SHARE, SeriesKind.HEAT

SERIES = (
    Series("zombies", "Zombies", "cgroups", _L, "stock"),
    Series(MAKER_PREFIX + "*", "Zombies of {}", "cgroups", _L, "makers"),
    Series("births", "Born", "per second", _C, "events"),
    Series("deaths", "Died", "per second", _C, "events"),
    Series("releases", "Released", "per second", _C, "events"),
    Series(BORN_PREFIX + "*", "Born of {}", "per second", _C, "born"),
    Series(DIED_PREFIX + "*", "Died of {}", "per second", _C, "died"),
    Series(RELEASED_PREFIX + "*", "Released of {}", "per second", _C, "released"),
    Series("bytes.*", "Held: {}", "bytes", _L, "bytes"),
    Series("kernel_bytes", "Kernel memory held", "bytes", _L, "kernel"),
    Series("sweep_seconds", "One sweep", "seconds", _L, "sweep"),
    Series("reclaim_cpu_seconds", "Reclaim, in ten seconds", "seconds", _L, "reclaim"),
    Series("kswapd_share", "kswapd", "share", _S, "pressure", 1.0, is_usual=False),
    Series(RECLAIM_SECONDS, "One pass", "seconds", _L, "pass"),
    Series("pressure.memory.some", "Memory, some stalled", "share", _S, "pressure", 1.0),
    Series("pressure.memory.full", "Memory, all stalled", "share", _S, "pressure", 1.0),
    Series("pressure.cpu.some", "CPU, some stalled", "share", _S, "pressure", 1.0),
    Series("pressure.io.some", "I/O, some stalled", "share", _S, "pressure", 1.0, is_usual=False),
    Series("throttled_seconds", "Throttled", "seconds per second", _C, "throttled"),
    Series("saturated_seconds", "Saturated", "seconds per second", _C, "saturated"),
    Series(CORE_PREFIX + "*", "Core {}", "percent", _H, "cores", 100.0),
    Series("softirq_wait_seconds", "ksoftirqd waited", "seconds per second", _C, "softirq"),
    Series("poll_wait_p999_seconds", "Wait of one packet in a thousand", "seconds", _L, "poll_tail"),
    Series("poll_waited_seconds", "Waited", "seconds per second", _C, "polls", is_usual=False),
    Series("poll_waits_long", "Long waits", "per second", _C, "resets", is_usual=False),
    Series("sweeper_seconds", "Sweeping", "seconds per second", _C, "sweepers"),
    Series("reclaim_tasks_seconds", "Tasks that reclaim", "seconds per second", _C, "reclaiming", is_usual=False),
    Series("kswapd_seconds", "kswapd", "seconds per second", _C, "reclaiming", is_usual=False),
    Series("memory_stalled_seconds", "Memory, some stalled", "seconds per second", _C, "throttled", is_usual=False),
    Series("cpu_stalled_seconds", "CPU, some stalled", "seconds per second", _C, "throttled", is_usual=False),
    Series("major_faults", "Pages read from disk", "per second", _C, "faults", is_usual=False),
    Series("nic_resets", "Resets", "per second", _C, "resets", is_usual=False),
    Series("lifetime_seconds", "Lifetime, median", "seconds", _L, "lifetimes", is_usual=False),
    Series("as_zombie_seconds", "As a zombie, median", "seconds", _L, "lifetimes", is_usual=False),
    Series("counted", "Counted", "cgroups", _L, "population", is_usual=False),
    Series("live", "Live", "cgroups", _L, "population", is_usual=False),
    Series("ids", "Kernel ids held", "cgroups", _L, "population", 65_535.0, is_usual=False),
    Series("lost", "Events missed", "per second", _C, "events", is_usual=False),
    Series("uptime", "Uptime", "seconds", _L, "uptime", is_usual=False),
)
_BY_NAME = {series.name: series for series in SERIES if not series.is_prefix}
_PREFIXES = [series for series in SERIES if series.is_prefix]
_ORDER = {lane.id: number for number, lane in enumerate(LANES)}


def describe(name: str) -> Series:
    """What is declared of it; of one that nobody declared, its name."""
    if name in _BY_NAME:
        return _BY_NAME[name]
    for series in _PREFIXES:
        stem = series.name[:-1]
        if name.startswith(stem):
            return series._replace(name=name, title=series.title.format(name.removeprefix(stem)))
    words = name.replace("_", " ")
    return Series(name, words[:1].upper() + words[1:], "", SeriesKind.LEVEL, name)


def our_part(name: str) -> str:
    """Of a name of a series what we chose; the rest of it, such as a maker, others did."""
    if name in _BY_NAME:
        return name
    return next((series.name[:-1] for series in _PREFIXES if name.startswith(series.name[:-1])), "")


def lane_title(lane: str) -> str:
    return next((each.title for each in LANES if each.id == lane), "") or describe(lane).title


def lane_order(lane: str) -> int:
    """Those that nobody declared come last."""
    return _ORDER.get(lane, len(LANES))
