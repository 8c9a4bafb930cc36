# SPDX-License-Identifier: Apache-2.0
"""Watch reclaim, stalls and throttling for a window: a look a second, of the machine and of the cgroups that hold zombies; their
quotas at both ends."""

from __future__ import annotations

from collections.abc import Sequence

from zombiescope.analysis.pressure import derive_pressure, derive_throttled
from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.gap import Gap
from zombiescope.facts.pressure import NO_GROUPS, PressureLook, PressureSeen
from zombiescope.host.access import Host
from zombiescope.probes.readers.cpu_throttling import read_throttling
from zombiescope.probes.readers.group_stalls import read_group_stalls
from zombiescope.probes.readers.node import read_shape
from zombiescope.probes.readers.reclaim_rates import find_kswapd, read_reclaim_rates


class PressureWindow:
    def __init__(self, host: Host, hierarchy: Hierarchy | Gap = NO_GROUPS, groups: Sequence[bytes] = ()) -> None:
        self._host, self._hierarchy, self._groups = host, hierarchy, groups
        self._kswapd = find_kswapd(host)
        self._throttling = read_throttling(host)
        self._looks = [self._read()]

    def look(self) -> None:
        self._looks.append(self._read())

    def _read(self) -> PressureLook:
        look = read_reclaim_rates(self._host, self._kswapd)
        return look._replace(groups=read_group_stalls(self._host, self._hierarchy, self._groups))

    def seen(self) -> PressureSeen | Gap:
        self.look()
        throttled = derive_throttled(self._throttling, read_throttling(self._host))
        first = self._looks[0]
        if isinstance(first.vmstat, Gap) and isinstance(first.stalls, Gap) and isinstance(throttled, Gap):
            return first.vmstat
        return derive_pressure(self._looks, throttled, read_shape(self._host).possible_cpus)
