# SPDX-License-Identifier: Apache-2.0
"""How long raised network softirqs, and threads that poll the network, waited for their core, and how long polls took, followed all
the time."""

from __future__ import annotations

from typing import NamedTuple

BUCKETS = 32
"""As in `lifecycle.Histogram`: powers of two of microseconds."""
Buckets = tuple[int, ...]


class LongTimes(NamedTuple):
    """Those that stood at two looks of the clock: each is seen, to within a look."""

    counts: Buckets
    sums_ns: Buckets
    longest_seconds: float
    longest_at: float | None
    open_seconds: float
    """Of the one that is not over; 0 where there is none."""


class ThreadRuns(NamedTuple):
    """Of kernel threads that poll a device in the softirq's place (threaded NAPI)."""

    runs: int = 0
    """How often one got the core without a long wait."""
    seconds: float = 0.0
    """What those waited altogether, by the scheduler's account."""
    longs: int = 0
    """Long waits: they are among the core's."""


class PollCore(NamedTuple):
    """Since watching began."""

    core: int
    runs: int
    """Of network softirqs; a number of 32 bits that begins anew."""
    waited: Buckets
    """From raise to run, stamped in the slices."""
    polled: Buckets
    waits: LongTimes
    polls: LongTimes
    threads: ThreadRuns = ThreadRuns()


class PollLook(NamedTuple):
    at: float
    steady: float
    cores: tuple[PollCore, ...]
    looks: int
    """Of the clock, since watching began."""
    latest_seconds: float
    """How late a look was at most: nothing was seen meanwhile."""
    sees_polls: bool
    """Long polls are seen by the clock; else only in the slices."""
    stamped_seconds: float
    """How much of the time every softirq was stamped."""
    threads: int = 0
    """That poll the network and are followed."""
    threads_found: int = 0
    """All of them."""


class PollTail(NamedTuple):
    """What one network packet in a thousand, arriving at any moment, would have waited at least, on the worst core."""

    p999_seconds: float
    """In the last minute."""
    earlier_seconds: float | None
    """In the minutes before it, of the last ten, on average; None where they were not watched."""
    minutes_above: int
    """Of the last ten, in which it was above a tenth of a second."""
    stamped_share: float
    """Of the time in which every softirq was stamped; longer waits are always seen."""

    @property
    def is_growing(self) -> bool:
        return self.earlier_seconds is not None and self.p999_seconds > GROWING * self.earlier_seconds


GROWING = 1.2
"""By a fifth: more than one minute differs from another at the same load."""
