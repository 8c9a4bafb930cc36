# SPDX-License-Identifier: Apache-2.0
"""What all cores together did in the window, as shares: for the rules that blame the hypervisor or plain work."""

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


def shares_of(seen: CoresSeen | Gap) -> CoreShares | Gap:
    if isinstance(seen, Gap):
        return seen
    if not seen.uses:
        return Gap("cores", "only stretches were kept, not what the cores did otherwise")
    total = CoreTime()
    for use in seen.uses:
        total = total.plus(use.time)
    if total.total <= 0:
        return Gap("cores", "no time passed")
    worst = max(seen.uses, key=lambda use: use.time.steal / (use.time.total or 1.0))
    return CoreShares(
        seen.began_at + seen.seconds,
        seen.seconds,
        total.user / total.total,
        total.steal / total.total,
        (total.idle + total.iowait) / total.total,
        worst.time.steal / (worst.time.total or 1.0),
        worst.core,
    )
