# SPDX-License-Identifier: Apache-2.0
"""From two looks at ksoftirqd, or at every core's softirqs, to what happened between them; histograms for the worst core and
for all; and the wait that one packet in a thousand would have had.

Long waits are known one by one. Of the short ones the number is known, and how they are spread from those that were stamped.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise, zip_longest
from typing import NamedTuple

from zombiescope.facts.gap import Gap
from zombiescope.facts.softirq import (
    BUCKETS,
    Buckets,
    CoreLatency,
    KsoftirqdWait,
    LongTimes,
    PollCore,
    PollLook,
    SoftirqLook,
    SoftirqSeen,
    SoftirqStep,
    ThreadRuns,
)

SHORT_BUCKETS = 15
"""Buckets below this hold less than 2^14 us: what stands for longer is seen by the clock."""
_USUAL = 6
"""Where the short ones are put while none was stamped on any core: less than 64 us, as everywhere."""
TAIL = 0.001


class CoreStep(NamedTuple):
    """What one core did between two looks."""

    core: int
    runs: int
    waited: Buckets
    polled: Buckets
    waits: tuple[tuple[float, int], ...]
    """Long ones that ended: mean seconds and number, by bucket."""
    polls: tuple[tuple[float, int], ...]
    open_wait: float
    """Seconds of the one that is not over."""
    threads: ThreadRuns = ThreadRuns()

    @property
    def number(self) -> int:
        """Of all waits, long and short, of softirqs and of threads."""
        return self.runs + self.threads.runs + self.threads.longs

    @property
    def thread_waits(self) -> tuple[tuple[float, int], ...]:
        """Short ones: mean seconds and number."""
        runs = self.threads.runs
        return ((self.threads.seconds / runs, runs),) if runs else ()

    @property
    def waited_seconds(self) -> float:
        return sum(mean * count for mean, count in self.waits) + self.open_wait


class PollStep(NamedTuple):
    at: float
    seconds: float
    cores: tuple[CoreStep, ...]
    stamped_seconds: float


def poll_step(before: PollLook, after: PollLook) -> PollStep:
    known = {core.core: core for core in before.cores}
    cores = tuple(_core(known[core.core], core) for core in after.cores if core.core in known)
    stamped = max(after.stamped_seconds - before.stamped_seconds, 0.0)
    return PollStep(after.at, max(after.steady - before.steady, 0.0), cores, stamped)


def _core(then: PollCore, now: PollCore) -> CoreStep:
    stamped = _more(then.waited, now.waited)
    return CoreStep(
        now.core,
        (now.runs - then.runs) % (1 << 32) if then.runs else sum(stamped),
        stamped,
        _more(then.polled, now.polled),
        _ended(then.waits, now.waits),
        _ended(then.polls, now.polls),
        now.waits.open_seconds,
        _thread_runs(then.threads, now.threads),
    )


def _thread_runs(then: ThreadRuns, now: ThreadRuns) -> ThreadRuns:
    return ThreadRuns(
        max(now.runs - then.runs, 0), max(now.seconds - then.seconds, 0.0), max(now.longs - then.longs, 0)
    )


def _more(then: Buckets, now: Buckets) -> Buckets:
    return tuple(max(b - a, 0) for a, b in zip(then, now, strict=True))


def _ended(then: LongTimes, now: LongTimes) -> tuple[tuple[float, int], ...]:
    counts, sums = _more(then.counts, now.counts), _more(then.sums_ns, now.sums_ns)
    return tuple((total / count / 1e9, count) for total, count in zip(sums, counts, strict=True) if count)


def worst_core(step: PollStep) -> CoreStep | None:
    """The one that waited longest altogether; without long waits the one whose short ones were longest."""
    return max(step.cores, key=lambda core: (core.waited_seconds, _middle(core.waited), core.runs), default=None)


def _middle(buckets: Buckets) -> int:
    return max((place for place, count in enumerate(buckets[:SHORT_BUCKETS]) if count), default=0)


def one_in_a_thousand(waits: Iterable[tuple[float, int]], seconds: float) -> float:
    """Seconds. A packet that comes while a softirq waits, waits for the rest of it: how long is that for one in a thousand of those
    that come evenly over the time? The least x so that all waits beyond their last x seconds are a thousandth of the time."""
    left, number = TAIL * seconds, 0
    for (length, count), (shorter, _) in pairwise([*sorted(waits, reverse=True), (0.0, 0)]):
        number += count
        room = number * (length - shorter)
        if room >= left:
            return max(length - left / number, 0.0)
        left -= room
    return 0.0


class Spread(NamedTuple):
    """A histogram as Prometheus has it, of what ended since the agent began: at most each bound, and all; and their seconds."""

    at_most: tuple[float, ...]
    all: float
    seconds: float

    @classmethod
    def empty(cls, bounds: Sequence[int]) -> "Spread":
        return cls((0.0,) * len(bounds), 0.0, 0.0)

    def plus(self, other: "Spread") -> "Spread":
        pairs = zip(self.at_most, other.at_most, strict=True)
        return Spread(tuple(a + b for a, b in pairs), self.all + other.all, self.seconds + other.seconds)


def spread(bounds: Sequence[int], known: Sequence[tuple[float, int]], stamped: Buckets, number: int | None) -> Spread:
    """`bounds`: powers of two of microseconds. `known`: mean seconds and number of those that need no stamp. `number`: of all,
    those included; None where only those stamped are known."""
    lengthy = sum(count for _, count in known)
    short = list(stamped[:SHORT_BUCKETS])
    told = sum(short)
    wanted = told if number is None else max(number - lengthy, 0)
    if not told and wanted:
        short[_USUAL], told = 1, 1
    scale = wanted / told if told else 0.0
    seconds = sum(scale * count * 0.75 * 2.0**place / 1e6 for place, count in enumerate(short))
    seconds += sum(mean * count for mean, count in known)
    at_most = tuple(
        scale * sum(short[: bound + 1]) + sum(count for mean, count in known if mean <= 2.0**bound / 1e6)
        for bound in bounds
    )
    return Spread(at_most, scale * told + lengthy, seconds)


def added(buckets: Iterable[Buckets]) -> Buckets:
    return tuple(map(sum, zip_longest([0] * BUCKETS, *buckets, fillvalue=0)))


def step_between(before: SoftirqLook, after: SoftirqLook) -> SoftirqStep:
    waits = waits_between(before, after)
    unread = next((look.ksoftirqd for look in (after, before) if isinstance(look.ksoftirqd, Gap)), None)
    return SoftirqStep(
        before.at,
        after.at,
        max(after.steady - before.steady, 0.0),
        sum(wait.seconds for wait in waits) if unread is None else unread,
        max(waits, key=lambda wait: wait.seconds, default=None),
        _grown(before.squeezed, after.squeezed),
        _grown(before.dropped, after.dropped),
    )


def derive_softirq(steps: Sequence[SoftirqStep], latencies: tuple[CoreLatency, ...] | Gap) -> SoftirqSeen:
    """At least one step."""
    first, last = steps[0], steps[-1]
    waits = [step.waited_seconds for step in steps]
    unread = next((wait for wait in reversed(waits) if isinstance(wait, Gap)), None)
    longest = [step.longest for step in steps if step.longest]
    return SoftirqSeen(
        first.at,
        max(sum(step.seconds for step in steps), last.until - first.at, 0.0),
        sum(wait for wait in waits if not isinstance(wait, Gap)) if unread is None else unread,
        max(longest, key=lambda wait: wait.seconds, default=None),
        _told_sum(step.squeezed for step in steps),
        _told_sum(step.dropped for step in steps),
        latencies,
    )


def _told_sum(values: Iterable[int | None]) -> int | None:
    told = [value for value in values if value is not None]
    return sum(told) if told else None


def waits_between(before: SoftirqLook, after: SoftirqLook) -> list[KsoftirqdWait]:
    """By core; a counter that ran backwards belongs to another thread (the core was away), and says nothing."""
    if isinstance(before.ksoftirqd, Gap) or isinstance(after.ksoftirqd, Gap):
        return []
    found = []
    dropped = _grown(before.dropped, after.dropped)
    for core, now in after.ksoftirqd.items():
        then = before.ksoftirqd.get(core)
        if then is not None and now.wait_ns >= then.wait_ns and now.slices >= then.slices:
            waited = (now.wait_ns - then.wait_ns) / 1e9
            found.append(KsoftirqdWait(core, before.at, waited, now.slices - then.slices, dropped))
    return found


def _grown(first: int | None, last: int | None) -> int | None:
    return None if first is None or last is None or last < first else last - first
