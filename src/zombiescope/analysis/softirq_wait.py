# SPDX-License-Identifier: Apache-2.0
"""What ksoftirqd waited between looks, and the interval in which one core's waited longest."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from zombiescope.facts.gap import Gap
from zombiescope.facts.softirq import CoreLatency, KsoftirqdWait, SoftirqLook, SoftirqSeen, SoftirqStep


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
        if then is None or now.wait_ns < then.wait_ns or now.slices < then.slices:
            continue
        waited = (now.wait_ns - then.wait_ns) / 1e9
        found.append(KsoftirqdWait(core, before.at, waited, now.slices - then.slices, dropped))
    return found


def _grown(first: int | None, last: int | None) -> int | None:
    return None if first is None or last is None or last < first else last - first
