# SPDX-License-Identifier: Apache-2.0
"""Watch reclaim's rates, stalls and throttling, of the machine and of the cgroups that hold zombies: a span between two looks is a
point. Quotas, which cost a walk, are looked at on their own: once a minute by the agent, at both ends of a window by `doctor`."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from zombiescope.analysis.pressure import derive_throttled, point_between, pressure_of
from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.gap import Gap
from zombiescope.facts.pressure import NO_GROUPS, PressureLook, PressurePoint, PressureSeen, Throttle, ThrottledGroup
from zombiescope.host.access import Host
from zombiescope.probes.readers.cpu_throttling import FACT, read_throttling
from zombiescope.probes.readers.node import read_shape
from zombiescope.probes.readers.reclaim_rates import find_kswapd, read_reclaim_rates
from zombiescope.watching.watch import Quiet

QUOTA_SECONDS = 60.0
_MOST_QUOTAS = 11
_MOST_SPANS = 60
_SOON = Gap(FACT, "watched for less than a minute so far", "look again in a minute")


class QuotasWatch(Quiet):
    """Every cgroup that has a CPU quota; `look` reads when a minute is over."""

    def __init__(self, host: Host, interval: float = QUOTA_SECONDS) -> None:
        self._host, self._interval = host, interval
        self._looks: deque[Mapping[bytes, Throttle]] = deque(maxlen=_MOST_QUOTAS)
        self._due = float("-inf")
        self._gap = _SOON
        self.throttled_seconds: float | None = None
        """Of all of them since watching began; None before two looks."""

    def look(self) -> None:
        now = self._host.monotonic()
        if now < self._due:
            return
        self._due = now + self._interval
        self.look_now()

    def look_now(self) -> None:
        found = read_throttling(self._host)
        if isinstance(found, Gap):
            self._looks.clear()
            self._gap = found
        else:
            if self._looks:
                more = derive_throttled(self._looks[-1], found)
                assert not isinstance(more, Gap)
                self.throttled_seconds = (self.throttled_seconds or 0.0) + sum(group.seconds for group in more)
            self._looks.append(found)
            self._gap = _SOON

    def seen(self) -> tuple[ThrottledGroup, ...] | Gap:
        return derive_throttled(self._looks[0], self._looks[-1]) if len(self._looks) > 1 else self._gap


class PressureWatch(Quiet):
    """Of the last ten minutes, at a look every ten seconds."""

    def __init__(self, host: Host, quotas: QuotasWatch | None = None, most_spans: int | None = _MOST_SPANS) -> None:
        self._host = host
        self._kswapd = find_kswapd(host)
        self.quotas = quotas or QuotasWatch(host)
        self._cores = read_shape(host).possible_cpus
        self.last: PressureLook | None = None
        self._spans: deque[tuple[float, PressurePoint | None]] = deque(maxlen=most_spans)
        """When the look before began it, and what happened until the next one."""

    def look(self) -> None:
        look = self._read()
        if self.last is not None:
            self._spans.append((self.last.at, point_between(self.last, look)))
        self.last = look
        self.quotas.look()

    @property
    def latest(self) -> PressurePoint | None:
        """Between the last two looks."""
        return self._spans[-1][1] if self._spans else None

    def seen(self) -> PressureSeen | Gap:
        """After a look."""
        last, throttled = self.last, self.quotas.seen()
        assert last is not None
        if isinstance(last.vmstat, Gap) and isinstance(last.stalls, Gap) and isinstance(throttled, Gap):
            return last.vmstat
        begin = self._spans[0][0] if self._spans else last.at
        points = tuple(point for _, point in self._spans if point is not None)
        return pressure_of(points, begin, last, throttled, self._cores)

    def _read(self) -> PressureLook:
        return read_reclaim_rates(self._host, self._kswapd)


class WholePressureWatch(PressureWatch):
    """From its opening to `seen`, with the stalls of these cgroups."""

    def __init__(self, host: Host, hierarchy: Hierarchy | Gap = NO_GROUPS, groups: Sequence[bytes] = ()) -> None:
        super().__init__(host, QuotasWatch(host, float("inf")), None)
        self._hierarchy, self._groups = hierarchy, groups
        self.look()

    def seen(self) -> PressureSeen | Gap:
        self.look()
        self.quotas.look_now()
        return super().seen()

    def _read(self) -> PressureLook:
        from zombiescope.probes.readers.reclaim_rates import read_group_stalls  # noqa: PLC0415 (the agent follows no cgroups)

        return super()._read()._replace(groups=read_group_stalls(self._host, self._hierarchy, self._groups))
