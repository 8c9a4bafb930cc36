# SPDX-License-Identifier: Apache-2.0
"""Watch a window for what starves: `look` once a second, then `seen`. Each part is a fact or its gap; none needs another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from zombiescope.analysis.sweeping import SweepBursts
from zombiescope.analysis.zombie_cost import derive_sweepers
from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.gap import Gap
from zombiescope.facts.kernel_log import KernelLog
from zombiescope.facts.network import NicCounters
from zombiescope.facts.pressure import NO_GROUPS, PressureSeen
from zombiescope.facts.reclaim import ReclaimSeen, SweepBurst, SweepersSeen
from zombiescope.facts.softirq import SoftirqSeen
from zombiescope.host.access import Host
from zombiescope.pipeline.pressure import PressureWindow
from zombiescope.pipeline.softirq_watch import SoftirqWindow
from zombiescope.probes.readers.kernel_log import read_kernel_log
from zombiescope.probes.readers.nic_counters import read_nic_counters
from zombiescope.probes.readers.reclaim_passes import ReclaimWindow
from zombiescope.probes.readers.sweepers import TICKS_PER_SECOND, read_sweeper_times, read_sweepers


class Starvation(NamedTuple):
    """The fields of a `Case` that this window fills, by the same names."""

    kernel_log: KernelLog | Gap
    nic_counters: NicCounters | Gap
    softirq: SoftirqSeen | Gap
    reclaim: ReclaimSeen | Gap
    sweepers: SweepersSeen | Gap
    pressure: PressureSeen | Gap


class StarvationWindow:
    def __init__(
        self,
        host: Host,
        hierarchy: Hierarchy | Gap = NO_GROUPS,
        groups: Sequence[bytes] = (),
        *,
        believe_users: bool = False,
    ) -> None:
        """`groups`: cgroups whose own stalls are followed."""
        self._host, self._believe_users = host, believe_users
        self._began_at = host.wall_clock()
        self._nics = read_nic_counters(host)
        self._sweepers = read_sweepers(host)
        self._sweeping = SweepBursts(TICKS_PER_SECOND)
        self._bursts: list[SweepBurst] = []
        self._softirq = SoftirqWindow(host)
        self._reclaim = ReclaimWindow(host, hierarchy)
        self._pressure = PressureWindow(host, hierarchy, groups)

    def look(self) -> None:
        """Once a second."""
        self._softirq.look()
        self._pressure.look()
        if self._sweepers and not isinstance(self._sweepers, Gap):
            times = read_sweeper_times(self._host, self._sweepers)
            self._bursts += self._sweeping.take(self._host.wall_clock(), times)

    def seen(self) -> Starvation:
        softirq, reclaim = self._softirq.seen(), self._reclaim.seen()
        self._reclaim.close()
        log = read_kernel_log(self._host, believe_users=self._believe_users)
        return Starvation(log, self._nic_counters(), softirq, reclaim, self._sweepers_seen(), self._pressure.seen())

    def _nic_counters(self) -> NicCounters | Gap:
        last, now = read_nic_counters(self._host), self._host.wall_clock()
        if isinstance(last, Gap):
            return last
        first = last if isinstance(self._nics, Gap) else self._nics
        return NicCounters(now, max(now - self._began_at, 0.0), first, last)

    def _sweepers_seen(self) -> SweepersSeen | Gap:
        before, after, now = self._sweepers, read_sweepers(self._host), self._host.wall_clock()
        if isinstance(before, Gap):
            return before
        if isinstance(after, Gap):
            return after
        bursts = tuple(sorted([*self._bursts, *self._sweeping.unfinished]))
        return SweepersSeen(
            now, max(now - self._began_at, 0.0), derive_sweepers(before, after, TICKS_PER_SECOND), bursts
        )
