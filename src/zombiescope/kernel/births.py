# SPDX-License-Identifier: Apache-2.0
"""When each memory cgroup was born, from stamps that the kernel set for other ends.

`cgwb_domain.dirty_limit_tstamp` is the jiffy of birth; on v2 heavy writing moves it forward. Serial numbers are given in
order of birth, so nobody is younger than those born after him: that pulls moved stamps back. Without cgroup writeback the
stamp of the group's pressure counters serves, on v1 only, where nothing updates it.
"""

from __future__ import annotations

from collections.abc import Iterable

from zombiescope.kernel.raw import Clock, RawMemcg

_TICK_RATES = (100, 128, 250, 256, 300, 500, 512, 1000, 1024, 1200)
_BOOT_JIFFIES = 300  # jiffies start this many seconds below 2^32 (INITIAL_JIFFIES)
_SLACK_SECONDS = 20.0


def birth_times(memcgs: Iterable[RawMemcg], clock: Clock, *, is_v2: bool) -> dict[int, float]:
    """Seconds since the epoch by serial number; those that nothing tells are left out."""
    rate = tick_rate(clock)
    ages: dict[int, float] = {}
    for memcg in memcgs:
        if memcg.born and rate:
            age = (clock.jiffies - memcg.born) / rate
        elif memcg.psi_born and not is_v2:
            age = clock.monotonic_seconds - memcg.psi_born / 1e9
        else:
            continue
        if -1.0 <= age <= clock.monotonic_seconds + _SLACK_SECONDS:
            ages[memcg.serial] = max(age, 0.0)
    if is_v2:
        _not_younger_than_successors(ages)
    return {serial: clock.wall_seconds - age for serial, age in ages.items()}


def tick_rate(clock: Clock) -> int | None:
    """CONFIG_HZ, from the one rate at which the jiffies agree with the time since boot."""

    def error_seconds(rate: int) -> float:
        return abs((clock.jiffies - (1 << 32)) / rate + _BOOT_JIFFIES - clock.monotonic_seconds)

    best = min(_TICK_RATES, key=error_seconds)
    return best if error_seconds(best) < _SLACK_SECONDS else None


def _not_younger_than_successors(ages: dict[int, float]) -> None:
    youngest = 0.0
    for serial in sorted(ages, reverse=True):
        youngest = max(youngest, ages[serial])
        ages[serial] = youngest
