# SPDX-License-Identifier: Apache-2.0
"""Watch those who read every cgroup's statistics: a look a second, each burst of theirs in the kernel."""

from collections import deque

from zombiescope.analysis.zombie_cost import SweepBursts, derive_sweepers
from zombiescope.facts.agent import MetricSample, Reading
from zombiescope.facts.gap import Gap
from zombiescope.facts.metric_names import SWEEPERS
from zombiescope.facts.reclaim import SweepBurst, SweepersSeen
from zombiescope.host.access import Host
from zombiescope.probes.kernel_text import TICKS_PER_SECOND
from zombiescope.probes.readers.stat_sweep import read_sweeper_times, read_sweepers
from zombiescope.watching.watch import Events, Quiet, Teller

_SEARCH_SECONDS = 300.0
"""Between two searches for such processes: each reads the name of every process."""
_MOST_BURSTS = 500


class SweepsWatch(Quiet):
    def __init__(self, host: Host, began_at: float) -> None:
        self._host, self._began_at = host, began_at
        self._sweeping = SweepBursts(TICKS_PER_SECOND)
        self._bursts: deque[SweepBurst] = deque(maxlen=_MOST_BURSTS)
        self.ended: tuple[SweepBurst, ...] = ()
        """By the last look."""
        self._searched = host.monotonic()
        self._first = self._known = read_sweepers(host)

    def look(self) -> None:
        self.ended = ()
        now = self._host.monotonic()
        if isinstance(self._known, Gap) or now - self._searched >= _SEARCH_SECONDS:
            self._searched, self._known = now, read_sweepers(self._host)
        elif self._known:
            self._known = read_sweeper_times(self._host, self._known)
        if self._known and not isinstance(self._known, Gap):
            self.ended = self._sweeping.take(self._host.wall_clock(), self._known)
            self._bursts.extend(self.ended)

    @property
    def kernel_seconds(self) -> float:
        """Of all sweepers, since watching began."""
        return self._sweeping.seconds

    @property
    def gap(self) -> Gap | None:
        """Of the last look."""
        return self._known if isinstance(self._known, Gap) else None

    def seen(self) -> SweepersSeen | Gap:
        before, after, now = self._first, read_sweepers(self._host), self._host.wall_clock()
        if isinstance(before, Gap):
            return before
        if isinstance(after, Gap):
            return after
        bursts = tuple(sorted([*self._bursts, *self._sweeping.unfinished]))
        seconds = max(now - self._began_at, 0.0)
        return SweepersSeen(now, seconds, derive_sweepers(before, after, TICKS_PER_SECOND), bursts)


class SweepsTeller(Teller):
    """Their time in the kernel together, and events: whose sweeps cost much is told by a window."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._watch = SweepsWatch(host, host.wall_clock())
        self._events = Events("stat-sweep", "sweeps", 10)

    def read(self) -> Reading | Gap:
        self._watch.look()
        happened = [(each.at, f"{each.name}: {each.seconds:.1f} s in the kernel") for each in self._watch.ended]
        now, spent = self._host.wall_clock(), self._watch.kernel_seconds
        return self._watch.gap or Reading(
            (MetricSample(SWEEPERS, (), spent),), {"sweeper_seconds": spent}, happened=self._events.take(now, happened)
        )
