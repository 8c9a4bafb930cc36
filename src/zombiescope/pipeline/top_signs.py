# SPDX-License-Identifier: Apache-2.0
"""What `top` shows above its table beside the cgroups: saturated cores, how long one sweep takes, resets of network cards.

The agent's own watches. A sweep is timed when watching begins and every five minutes: it costs what it measures.
"""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.facts.cgroups import Hierarchy, Sweep
from zombiescope.facts.cores import CoresSeen
from zombiescope.facts.gap import Gap
from zombiescope.host.access import Host
from zombiescope.probes.readers.cgroup_census import read_live_tree
from zombiescope.probes.readers.stat_sweep import read_stat_sweep
from zombiescope.watching.cores import CoresWatch
from zombiescope.watching.nics import FollowedNicsWatch

SWEEP_SECONDS = 300.0


class Signs(NamedTuple):
    cores: CoresSeen | Gap
    """Of the last ten minutes at most."""
    sweep: Sweep | Gap
    sweep_at: float
    """Seconds since the epoch."""
    resets: tuple[tuple[str, str, int], ...] | Gap
    """Device, reason, how many since watching began."""


class SignsWatch:
    def __init__(self, host: Host, hierarchy: Hierarchy) -> None:
        self._host, self._hierarchy = host, hierarchy
        self._cores = CoresWatch(host)
        self._nics = FollowedNicsWatch(host)
        self._cores.look()
        self._time_a_sweep()

    def read(self) -> Signs:
        if self._host.monotonic() - self._swept >= SWEEP_SECONDS:
            self._time_a_sweep()
        self._cores.look()
        self._nics.look()
        counted = sorted(self._nics.counts.items())
        resets = tuple((device, str(reason), count) for (device, reason), count in counted if count)
        known = resets or (self._nics.gap.about("resets") if self._nics.gap else ())
        return Signs(self._cores.seen(), self._sweep, self._swept_at, known)

    def close(self) -> None:
        self._nics.close()

    def _time_a_sweep(self) -> None:
        live = read_live_tree(self._host, self._hierarchy)
        self._sweep = live if isinstance(live, Gap) else read_stat_sweep(self._host, self._hierarchy, live.paths)
        self._swept, self._swept_at = self._host.monotonic(), self._host.wall_clock()
