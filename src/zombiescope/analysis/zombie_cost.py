# SPDX-License-Identifier: Apache-2.0
"""What zombies cost here, by behaviour: does reading statistics pay for them, or does reclaim? And who reads the statistics."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from zombiescope.facts.cgroups import Sweep
from zombiescope.facts.gap import Gap
from zombiescope.facts.reclaim import ReclaimCalls, ReclaimSeen, Sweeper

HEALTHY_READ_SECONDS = 0.002
"""For one cgroup's statistics; a kernel that does not walk the dead takes tens of microseconds."""
WALK_SECONDS = 0.02
"""On a core, for one call of reclaim."""
HEALTHY_PAGES_PER_SECOND = 20_000
"""That reclaim gives back for each second on a core; one that finds pages gives ten times as many."""
MANY_ZOMBIES = 5000
"""Enough to be most of a call that is shorter or still finds some pages: about a microsecond each (bench/bench_reclaim_walk.py)."""
SHORT_WALK_SECONDS = 0.004
POOR_PAGES_PER_SECOND = 100_000
"""A task at its limit finds a page of its own at each turn: a sixth of what the same task is given without zombies."""


class Payer(StrEnum):
    """Which of the two this kernel makes pay for zombies."""

    STATISTICS = "reading statistics"
    RECLAIM = "reclaim"
    BOTH = "both"
    NEITHER = "neither was seen to"
    UNKNOWN = "unknown"


class SweepCost(NamedTuple):
    seconds: float
    each_seconds: float
    """For one cgroup."""
    is_slow: bool


def derive_sweep_cost(sweep: Sweep) -> SweepCost:
    each = sweep.seconds / max(sweep.cgroups, 1)
    return SweepCost(sweep.seconds, each, each >= HEALTHY_READ_SECONDS)


def is_walk(calls: ReclaimCalls, zombies: int = 0) -> bool:
    """Long on a core and hardly a page for it: it walked over what it could not free. Beside many zombies less is enough."""
    if not calls.calls:
        return False
    each, seconds = calls.cpu_seconds / calls.calls, calls.cpu_seconds
    if each >= WALK_SECONDS and calls.pages < HEALTHY_PAGES_PER_SECOND * seconds:
        return True
    return zombies >= MANY_ZOMBIES and each >= SHORT_WALK_SECONDS and calls.pages < POOR_PAGES_PER_SECOND * seconds


def derive_payer(sweep: Sweep | Gap, reclaim: ReclaimSeen | Gap, zombies: int = 0) -> Payer:
    slow_sweep = None if isinstance(sweep, Gap) else derive_sweep_cost(sweep).is_slow
    walks = None if isinstance(reclaim, Gap) else any(is_walk(kind, zombies) for kind in reclaim.kinds)
    match slow_sweep, walks:
        case True, True:
            return Payer.BOTH
        case True, _:
            return Payer.STATISTICS
        case _, True:
            return Payer.RECLAIM
        case False, False:
            return Payer.NEITHER
        case _:
            return Payer.UNKNOWN


Times = Mapping[int, tuple[str, int, int]]
"""By process: name, ticks in user mode, ticks in the kernel."""


def derive_sweepers(before: Times, after: Times, ticks_per_second: int) -> tuple[Sweeper, ...]:
    """A process that came meanwhile counts from its beginning; one that went is not known any more."""
    found: dict[str, Sweeper] = {}
    for process, (name, user, system) in after.items():
        then = before.get(process)
        is_same = then is not None and then[0] == name and then[1] <= user and then[2] <= system
        old_user, old_system = (then[1], then[2]) if then is not None and is_same else (0, 0)
        known = found.get(name, Sweeper(name, 0, 0.0, 0.0))
        found[name] = Sweeper(
            name,
            known.processes + 1,
            known.user_seconds + (user - old_user) / ticks_per_second,
            known.system_seconds + (system - old_system) / ticks_per_second,
        )
    return tuple(sorted(found.values(), key=lambda each: (-each.cpu_seconds, each.name)))
