# SPDX-License-Identifier: Apache-2.0
"""What reclaim did between two readings of counters that only grow."""

from __future__ import annotations

from zombiescope.facts.lifecycle import Histogram
from zombiescope.facts.reclaim import ReclaimCalls, ReclaimSeen


def reclaim_since(before: ReclaimSeen, after: ReclaimSeen, now: float) -> ReclaimSeen:
    """`now`: when `after` was read. The longest call is known only if it began in between; else the mean stands for it."""
    seconds = max(after.seconds - before.seconds, 0.0)
    old = {kind.kind: kind for kind in before.kinds}
    kinds = tuple(_between(old[kind.kind], kind, now - seconds) if kind.kind in old else kind for kind in after.kinds)
    return ReclaimSeen(seconds, kinds, max(after.unseen - before.unseen, 0))


def _between(before: ReclaimCalls, after: ReclaimCalls, since: float) -> ReclaimCalls:
    buckets = list(after.histogram.buckets)
    for i, count in enumerate(before.histogram.buckets[: len(buckets)]):
        buckets[i] -= count
    calls, seconds = after.calls - before.calls, after.seconds - before.seconds
    is_new = after.longest_seconds > before.longest_seconds or (
        after.longest_at is not None and after.longest_at >= since
    )
    return ReclaimCalls(
        after.kind,
        calls,
        after.fruitless - before.fruitless,
        after.pages - before.pages,
        seconds,
        after.cpu_seconds - before.cpu_seconds,
        after.longest_seconds if is_new and calls else (seconds / calls if calls else 0.0),
        after.longest_at if is_new and calls else None,
        Histogram(tuple(buckets)),
    )
