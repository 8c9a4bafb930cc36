# SPDX-License-Identifier: Apache-2.0
"""When each memory cgroup was born, from stamps that the kernel set for other ends.

`cgwb_domain.dirty_limit_tstamp` is the jiffy of birth; on v2 heavy writing moves it forward. Serial numbers are given in
order of birth, so nobody is younger than those born after him: that pulls moved stamps back. Without cgroup writeback the
stamp of the group's pressure counters serves, on v1 only, where nothing updates it.
"""

from __future__ import annotations

from collections.abc import Sequence

from zombiescope.kernel.raw import Clock, RawMemcg

_TICK_RATES = (100, 128, 250, 256, 300, 500, 512, 1000, 1024, 1200)
_BOOT_JIFFIES = 300  # jiffies start this many seconds below 2^32 (INITIAL_JIFFIES)
_SLACK_SECONDS = 20.0


def birth_times(memcgs: Sequence[RawMemcg], clock: Clock, *, is_v2: bool) -> list[float | None]:
    """Seconds since the epoch, one for each; None where nothing tells."""
    rate = tick_rate(clock)
    if rate and any(memcg.born for memcg in memcgs):
        zero = clock.wall_seconds - clock.jiffies / rate
        stamps, per_second = [memcg.born for memcg in memcgs], float(rate)
    elif not is_v2:
        zero = clock.wall_seconds - clock.monotonic_seconds
        stamps, per_second = [memcg.psi_born for memcg in memcgs], 1e9
    else:
        return [None] * len(memcgs)
    latest = clock.wall_seconds
    earliest = latest - clock.monotonic_seconds - _SLACK_SECONDS
    first, last = (earliest - zero) * per_second, (latest - zero) * per_second
    times = [
        zero + stamp / per_second if stamp and first <= stamp <= last else _edge(stamp, last, per_second, latest)
        for stamp in stamps
    ]
    if is_v2:
        _not_younger_than_successors(memcgs, times)
    return times


def _edge(stamp: int, last: float, per_second: float, latest: float) -> float | None:
    """A stamp less than a second ahead is of now: the clocks were not read at the same instant."""
    return latest if stamp and last < stamp <= last + per_second else None


def tick_rate(clock: Clock) -> int | None:
    """CONFIG_HZ, from the one rate at which the jiffies agree with the time since boot."""

    def error_seconds(rate: int) -> float:
        return abs((clock.jiffies - (1 << 32)) / rate + _BOOT_JIFFIES - clock.monotonic_seconds)

    best = min(_TICK_RATES, key=error_seconds)
    return best if error_seconds(best) < _SLACK_SECONDS else None


def _not_younger_than_successors(memcgs: Sequence[RawMemcg], times: list[float | None]) -> None:
    earliest = float("inf")
    for place in sorted(range(len(memcgs)), key=lambda place: memcgs[place].serial, reverse=True):
        time = times[place]
        if time is not None:
            earliest = times[place] = min(earliest, time)
