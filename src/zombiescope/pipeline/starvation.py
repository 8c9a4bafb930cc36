# SPDX-License-Identifier: Apache-2.0
"""Watch a window for what starves: `look` once a second, then `seen`. Each part is a fact or its gap; none needs another."""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.facts.gap import Gap
from zombiescope.facts.kernel_log import KernelLog
from zombiescope.facts.network import DeviceCounters, NicCounters
from zombiescope.host.access import Host
from zombiescope.probes.readers.kernel_log import read_kernel_log
from zombiescope.probes.readers.nic_counters import read_nic_counters


class Starvation(NamedTuple):
    """The fields of a `Case` that this window fills, by the same names."""

    kernel_log: KernelLog | Gap
    nic_counters: NicCounters | Gap


class StarvationWindow:
    def __init__(self, host: Host, *, believe_users: bool = False) -> None:
        self._host, self._believe_users = host, believe_users
        self._began_at = host.wall_clock()
        self._nics = read_nic_counters(host)

    def look(self) -> None:
        """Once a second."""

    def seen(self) -> Starvation:
        now = self._host.wall_clock()
        return Starvation(
            read_kernel_log(self._host, believe_users=self._believe_users),
            self._nic_counters(now - self._began_at, now),
        )

    def _nic_counters(self, seconds: float, now: float) -> NicCounters | Gap:
        last: tuple[DeviceCounters, ...] | Gap = read_nic_counters(self._host)
        if isinstance(last, Gap):
            return last
        first = last if isinstance(self._nics, Gap) else self._nics
        return NicCounters(now, max(seconds, 0.0), first, last)
