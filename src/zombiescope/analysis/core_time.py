# SPDX-License-Identifier: Apache-2.0
"""The time between two looks at a core's counters. Counters are written at ticks and shown in hundredths, idle time is computed
from a clock (NO_HZ) and may run back a little, and a core that was away may come back with others: what does not fit is None."""

from __future__ import annotations

from zombiescope.facts.cores import USER_HZ, CoreLook, CoreTicks, CoreTime

_IDLE, _IOWAIT = 3, 4
_TICK = 1.0 / USER_HZ
_MOST_TICKS_OVER = 8
"""Each of eight counters is cut to hundredths on its own."""
_CLOCK_MOVED = 0.2
"""By this share of the time between two looks (and 50 ms at least) the wall clock and the steady one may differ."""


def seconds_between(before: CoreLook, after: CoreLook) -> float | None:
    """By the wall clock, which a recording keeps; None when somebody set it meanwhile, or no time passed."""
    elapsed, steady = after.at - before.at, after.steady - before.steady
    if elapsed <= 0 or abs(elapsed - steady) > max(_CLOCK_MOVED * elapsed, 0.05):
        return None
    return elapsed


def time_between(before: CoreTicks, after: CoreTicks, elapsed: float) -> CoreTime | None:
    """None when a counter ran backwards, or when the busy ones tell of more time than passed."""
    moved = [now - then for now, then in zip(after, before, strict=True)]
    for place in (_IDLE, _IOWAIT):  # known to run backwards on idle cores of tickless kernels
        moved[place] = max(moved[place], 0)
    if min(moved) < 0:
        return None
    user, nice, system, idle, iowait, irq, softirq, steal = (ticks * _TICK for ticks in moved)
    busy = user + nice + system + irq + softirq + steal
    if busy > elapsed * 1.5 + _MOST_TICKS_OVER * _TICK:
        return None
    free = max(elapsed - busy, 0.0)
    # Idle time is computed and may jump; what the ticks say was work is believed first.
    idle = min(idle, free)
    iowait = min(iowait, free - idle)
    return CoreTime(user + nice, system, softirq, irq, steal, iowait, idle, max(free - idle - iowait, 0.0))
