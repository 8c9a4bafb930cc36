# SPDX-License-Identifier: Apache-2.0
"""What all cores together did in the window, as shares: for the rules that blame the hypervisor or plain work.

Shares are of the time that the kernel accounts for: of a machine that stood still half of the time nothing else can be said.
"""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.facts.cores import CoresSeen, CoreTime
from zombiescope.facts.gap import Gap


class CoreShares(NamedTuple):
    at: float
    seconds: float
    user: float
    steal: float
    idle: float
    """With waiting for disks: nobody wanted the core."""
    worst_steal: float
    worst_steal_core: int
    lost: float
    """Of all time: accounted to nobody."""


def shares_of(seen: CoresSeen | Gap) -> CoreShares | Gap:
    if isinstance(seen, Gap):
        return seen
    if not seen.uses:
        return Gap("cores", "only stretches were kept, not what the cores did otherwise")
    total = CoreTime()
    for use in seen.uses:
        total = total.plus(use.time)
    accounted = total.total - total.lost
    if accounted <= 0:
        return Gap("cores", "no time passed")
    worst = max(seen.uses, key=lambda use: _steal(use.time))
    return CoreShares(
        seen.began_at + seen.seconds,
        seen.seconds,
        total.user / accounted,
        total.steal / accounted,
        (total.idle + total.iowait) / accounted,
        _steal(worst.time),
        worst.core,
        total.lost / total.total,
    )


def _steal(time: CoreTime) -> float:
    accounted = time.total - time.lost
    return time.steal / accounted if accounted > 0 else 0.0
