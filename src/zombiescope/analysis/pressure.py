# SPDX-License-Identifier: Apache-2.0
"""Looks at reclaim, stalls and throttling turned into what happened between them. A counter that ran backwards says nothing."""

from collections.abc import Mapping
from itertools import zip_longest

from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import Histogram
from zombiescope.facts.reclaim import (
    PressureLook,
    PressurePoint,
    PressureSeen,
    ReclaimCalls,
    ReclaimSeen,
    Stalls,
    Throttle,
    ThrottledGroup,
)

_CLOCK_MOVED = 0.2
"""By this share of the time between two looks (and 50 ms at least) the wall clock and the steady one may differ."""
_BY_WHOM = ("pgscan_kswapd", "pgscan_direct", "pgscan_khugepaged", "pgscan_proactive")
_OF_WHAT = ("pgscan_anon", "pgscan_file")


def pressure_of(
    points: tuple[PressurePoint, ...],
    begin: float,
    last: PressureLook,
    throttled: tuple[ThrottledGroup, ...] | Gap,
    cores: int | None,
) -> PressureSeen:
    gaps = [fact for fact in (last.vmstat, last.stalls, throttled) if isinstance(fact, Gap)]
    seconds = max(last.at - begin, 0.0)
    paths = tuple(dict.fromkeys(path for point in points for path in point.groups))
    groups = last.groups if isinstance(last.groups, Gap) else paths
    return PressureSeen(begin, seconds, cores, points, throttled, tuple(gaps), groups)


def derive_throttled(
    before: Mapping[bytes, Throttle] | Gap, after: Mapping[bytes, Throttle] | Gap
) -> tuple[ThrottledGroup, ...] | Gap:
    """A cgroup that came meanwhile counts from its beginning."""
    if isinstance(before, Gap):
        return before
    if isinstance(after, Gap):
        return after
    found = []
    for path, now in after.items():
        then = before.get(path, Throttle(0, 0, 0.0))
        then = then if then.periods <= now.periods and then.throttled <= now.throttled else Throttle(0, 0, 0.0)
        if now.periods > then.periods:
            waited = max(now.seconds - then.seconds, 0.0)
            found.append(ThrottledGroup(path, now.periods - then.periods, now.throttled - then.throttled, waited))
    return tuple(sorted(found, key=lambda group: (-group.share, -group.seconds, group.path)))


def point_between(before: PressureLook, after: PressureLook) -> PressurePoint | None:
    """By the wall clock, which a recording keeps; None when somebody set it meanwhile, or no time passed."""
    seconds, steady = after.at - before.at, after.steady - before.steady
    if seconds <= 0 or abs(seconds - steady) > max(_CLOCK_MOVED * seconds, 0.05):
        return None
    rates = _rates(before.vmstat, after.vmstat, seconds)
    known = {} if isinstance(before.groups, Gap) else before.groups
    now = {} if isinstance(after.groups, Gap) else after.groups
    groups = {path: _stalled(known[path], stalls, seconds) for path, stalls in now.items() if path in known}
    kswapd = None
    if before.kswapd_seconds is not None and after.kswapd_seconds is not None:
        kswapd = max(after.kswapd_seconds - before.kswapd_seconds, 0.0) / seconds
    return PressurePoint(
        before.at, seconds, rates.get("pgscan_direct"), rates.get("pgscan_kswapd"), _limit(rates), rates.get("pgmajfault"),
        kswapd, _stalled(before.stalls, after.stalls, seconds), groups,
    )  # fmt: skip


def _stalled(before: Stalls | Gap, after: Stalls | Gap, seconds: float) -> Stalls:
    """Share of the time; a counter that ran backwards belongs to another cgroup of the same name, and says nothing."""
    return {name: min(share, 1.0) for name, share in _rates(before, after, seconds).items()}


def _rates(before: Mapping[str, float] | Gap, after: Mapping[str, float] | Gap, seconds: float) -> dict[str, float]:
    if isinstance(before, Gap) or isinstance(after, Gap):
        return {}
    return {
        name: (now - before[name]) / seconds for name, now in after.items() if name in before and now >= before[name]
    }


def _limit(rates: Mapping[str, float]) -> float | None:
    """Pages scanned by nobody that is counted by name: memory cgroups at their limits. Only kernels that count by kind of page too
    (5.8 and later) tell; before, reclaim at a limit is among the direct ones."""
    if not all(name in rates for name in (*_OF_WHAT, "pgscan_kswapd", "pgscan_direct")):
        return None
    return max(sum(rates[name] for name in _OF_WHAT) - sum(rates.get(name, 0.0) for name in _BY_WHOM), 0.0)


def reclaim_since(before: ReclaimSeen, after: ReclaimSeen, now: float) -> ReclaimSeen:
    """`now`: when `after` was read. The longest call is known only if it began in between; else the mean stands for it."""
    seconds = max(after.seconds - before.seconds, 0.0)
    old = {kind.kind: kind for kind in before.kinds}
    kinds = tuple(_between(old[kind.kind], kind, now - seconds) if kind.kind in old else kind for kind in after.kinds)
    return ReclaimSeen(seconds, kinds, max(after.unseen - before.unseen, 0))


def _between(before: ReclaimCalls, after: ReclaimCalls, since: float) -> ReclaimCalls:
    old, new = before.histogram.buckets, after.histogram.buckets
    buckets = [count - then for count, then in zip_longest(new, old[: len(new)], fillvalue=0)]
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
