# SPDX-License-Identifier: Apache-2.0
"""What ksoftirqd waited between looks, and the interval in which one core's waited longest."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from zombiescope.facts.gap import Gap
from zombiescope.facts.softirq import CoreLatency, KsoftirqdWait, SoftirqLook, SoftirqSeen


def derive_softirq(looks: Sequence[SoftirqLook], latencies: tuple[CoreLatency, ...] | Gap) -> SoftirqSeen:
    """At least one look."""
    first, last = looks[0], looks[-1]
    waits = [wait for before, after in pairwise(looks) for wait in waits_between(before, after)]
    unread = next((look.ksoftirqd for look in reversed(looks) if isinstance(look.ksoftirqd, Gap)), None)
    waited = sum(wait.seconds for wait in waits)
    return SoftirqSeen(
        first.at,
        max(last.steady - first.steady, last.at - first.at, 0.0),
        unread if unread is not None else waited,
        max(waits, key=lambda wait: wait.seconds, default=None),
        _grown(first.squeezed, last.squeezed),
        _grown(first.dropped, last.dropped),
        latencies,
    )


def waits_between(before: SoftirqLook, after: SoftirqLook) -> list[KsoftirqdWait]:
    """By core; a counter that ran backwards belongs to another thread (the core was away), and says nothing."""
    if isinstance(before.ksoftirqd, Gap) or isinstance(after.ksoftirqd, Gap):
        return []
    found = []
    for core, now in after.ksoftirqd.items():
        then = before.ksoftirqd.get(core)
        if then is None or now.wait_ns < then.wait_ns or now.slices < then.slices:
            continue
        found.append(KsoftirqdWait(core, before.at, (now.wait_ns - then.wait_ns) / 1e9, now.slices - then.slices))
    return found


def _grown(first: int | None, last: int | None) -> int | None:
    return None if first is None or last is None or last < first else last - first
