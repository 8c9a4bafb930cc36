# SPDX-License-Identifier: Apache-2.0
"""Cgroups born (mkdir), died (rmdir) and released (freed), as they were seen to happen, and how many events were lost.

A flow is what happened under one parent to leaves of one name pattern; its path is that of one of them, from which the maker
is known. Zombies of a flow: what was there when watching began, plus deaths, less releases.
"""

from enum import StrEnum
from typing import NamedTuple

from zombiescope.facts.gap import Gap


class EventTier(StrEnum):
    """How births and deaths are seen; best first."""

    BPF = "bpf"
    TRACEFS = "tracefs"
    POLLING = "polling"


class Counts(NamedTuple):
    births: int = 0
    deaths: int = 0
    releases: int = 0

    def plus(self, other: "Counts") -> "Counts":
        return Counts(self.births + other.births, self.deaths + other.deaths, self.releases + other.releases)

    def less(self, other: "Counts") -> "Counts":
        return Counts(self.births - other.births, self.deaths - other.deaths, self.releases - other.releases)

    @property
    def balance(self) -> int:
        """Dead and not released, of those seen to die; negative where older ones were released."""
        return self.deaths - self.releases


class Flow(NamedTuple):
    path: bytes
    """Of one of them."""
    counts: Counts


class Histogram(NamedTuple):
    """How many took how long: `buckets[i]` took less than 2^i microseconds, and not less than half of that."""

    buckets: tuple[int, ...] = ()

    def quantile_seconds(self, share: float) -> float | None:
        """The upper end of the bucket in which it lies."""
        wanted, seen = share * sum(self.buckets), 0
        for power, count in enumerate(self.buckets):
            seen += count
            if count and seen >= wanted:
                return float(1 << power) / 1e6
        return None


class Lifecycle(NamedTuple):
    """What happened since the reading before, and since watching began."""

    tier: EventTier
    at: float
    """Seconds since the epoch."""
    total: Counts
    """Since watching began. Polling cannot see a release: its `releases` stay 0 with a gap."""
    flows: tuple[Flow, ...]
    """Since the reading before."""
    other: Counts
    """Since the reading before, of leaves for whose pattern there was no room."""
    lost: int | None
    """Events known to have happened and not seen, since watching began; None where nobody can know, by polling."""
    lifetimes: Histogram = Histogram()
    """From birth to death, since watching began; of those whose birth was seen."""
    zombie_times: Histogram = Histogram()
    """From death to release."""
    gaps: tuple[Gap, ...] = ()
    """Why no better tier was available, and what this one cannot tell."""


class Dead(NamedTuple):
    """Died while we watched, and not released yet."""

    id: int
    path: bytes
    died_at: float
    born_at: float | None


class MakerFlow(NamedTuple):
    maker: str
    births: int
    deaths: int
    releases: int | None
    """Of those that died in the window and some older ones; None where no release can be seen."""

    @property
    def left(self) -> int | None:
        """Died and were not released, a second after the window at the earliest."""
        return None if self.releases is None else max(self.deaths - self.releases, 0)


class FlowsSeen(NamedTuple):
    at: float
    seconds: float
    """Of the window."""
    tier: str
    """bpf, tracefs or polling; the last sees no release, and not what lives for less than a look."""
    makers: tuple[MakerFlow, ...]
    """Those with most left first, then those with most deaths."""
    lost: int | None = None
    """Events that were not seen; None where nobody can know."""

    def of(self, maker: str) -> MakerFlow | None:
        return next((flow for flow in self.makers if flow.maker == maker), None)
