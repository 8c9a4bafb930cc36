# SPDX-License-Identifier: Apache-2.0
"""Watch reclaim: every call timed in the kernel, by `ReclaimWindow`, which `doctor` and `scan --watch` read once, at the end. The
agent reads it every ten seconds, with rates, stalls and throttling of the same ten minutes, of the machine and of the cgroups
that hold zombies: a span between two looks is a point. Nothing runs between two readings where nobody reclaims. Quotas, which
cost a walk, are looked at on their own: once a minute by the agent, at both ends of a window by `doctor`."""

from collections import deque
from collections.abc import Mapping, Sequence

from zombiescope.analysis.pressure import derive_throttled, point_between, pressure_of, reclaim_since
from zombiescope.diagnosis.case import Case
from zombiescope.facts.agent import MetricSample, Occurrence, Reading
from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.gap import Gap
from zombiescope.facts.history import RECLAIM_SECONDS
from zombiescope.facts.metric_names import MAJOR_FAULTS, PRESSURE, RECLAIM_CPU, THROTTLED, THROTTLED_SHARE
from zombiescope.facts.reclaim import (
    NO_GROUPS,
    PressureLook,
    PressurePoint,
    PressureSeen,
    ReclaimSeen,
    Throttle,
    ThrottledGroup,
)
from zombiescope.host.access import Host
from zombiescope.probes.readers.cpu_time import THROTTLING_FACT as FACT
from zombiescope.probes.readers.cpu_time import read_throttling
from zombiescope.probes.readers.node import read_shape
from zombiescope.probes.readers.reclaim_rates import ReclaimWindow, find_kswapd, read_group_stalls, read_reclaim_rates
from zombiescope.watching.watch import Quiet, Teller

QUOTA_SECONDS = 60.0
_MOST_QUOTAS, _MOST_SPANS = 11, 60
_SOON = Gap(FACT, "watched for less than a minute so far", "look again in a minute")


class QuotasWatch(Quiet):
    """Every cgroup that has a CPU quota; `look` reads when a minute is over."""

    def __init__(self, host: Host, interval: float = QUOTA_SECONDS) -> None:
        self._host, self._interval = host, interval
        self._looks: deque[Mapping[bytes, Throttle]] = deque(maxlen=_MOST_QUOTAS)
        self._due, self._gap = float("-inf"), _SOON
        self.throttled_seconds: float | None = None
        """Of all of them since watching began; None before two looks."""

    def look(self) -> None:
        if (now := self._host.monotonic()) < self._due:
            return
        self._due = now + self._interval
        self.look_now()

    def look_now(self) -> None:
        if isinstance(found := read_throttling(self._host), Gap):
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
        return super()._read()._replace(groups=read_group_stalls(self._host, self._hierarchy, self._groups))


LONG_SECONDS = 1.0
_STALLS = ("memory.some", "cpu.some", "io.some")
_KEPT = ("memory.some", "memory.full", "cpu.some", "io.some")
_LEAST_PERIODS = 10
_IN_HISTORY = {
    (RECLAIM_CPU, ("tasks",)): "reclaim_tasks_seconds",
    (RECLAIM_CPU, ("kswapd",)): "kswapd_seconds",
    (PRESSURE, ("memory", "some")): "memory_stalled_seconds",
    (PRESSURE, ("cpu", "some")): "cpu_stalled_seconds",
    (MAJOR_FAULTS, ()): "major_faults",
    (THROTTLED, ()): "throttled_seconds",
}
_MOST_READINGS = 61


class ReclaimTeller(Teller):
    """A long call is an event."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._pressure = PressureWatch(host)
        self._window = ReclaimWindow(host)
        self._calls: deque[ReclaimSeen] = deque(maxlen=_MOST_READINGS)
        self._seen: ReclaimSeen | Gap | None = None
        """Of the last ten minutes."""
        self._kswapd_before: float | None = None

    def read(self) -> Reading:
        self._pressure.look()
        told, now = self._window.seen(), self._host.wall_clock()
        if isinstance(told, Gap):
            self._seen = told
            samples = self._samples(None)
            return Reading(samples, {**_followed(samples), **self._stalled()}, told)
        lately = reclaim_since(self._calls[-1], told, now) if self._calls else None
        self._calls.append(told)
        self._seen = reclaim_since(self._calls[0], told, now)
        samples = self._samples(told)
        remembered = {**_followed(samples), **self._stalled(), **_remembered(lately)}
        return Reading(samples, remembered, happened=_long_ones(lately))

    def _stalled(self) -> dict[str, float]:
        """Shares of the time since the last look."""
        point = self._pressure.latest
        if point is None:
            return {}
        found = {f"pressure.{name}": round(point.stalls[name], 4) for name in _KEPT if name in point.stalls}
        return found if point.kswapd_share is None else {**found, "kswapd_share": round(point.kswapd_share, 4)}

    def _samples(self, told: ReclaimSeen | None) -> tuple[MetricSample, ...]:
        """What is not known is left out."""
        look, quotas = self._pressure.last, self._pressure.quotas
        assert look is not None
        found = [] if told is None else [MetricSample(RECLAIM_CPU, ("tasks",), told.cpu_seconds)]
        if look.kswapd_seconds is not None:
            self._kswapd_before = look.kswapd_seconds if self._kswapd_before is None else self._kswapd_before
            found.append(MetricSample(RECLAIM_CPU, ("kswapd",), max(look.kswapd_seconds - self._kswapd_before, 0.0)))
        if not isinstance(look.stalls, Gap):
            known = (name for name in _STALLS if name in look.stalls)
            found += [MetricSample(PRESSURE, tuple(name.split(".")), look.stalls[name]) for name in known]
        if not isinstance(look.vmstat, Gap) and "pgmajfault" in look.vmstat:
            found.append(MetricSample(MAJOR_FAULTS, (), look.vmstat["pgmajfault"]))
        if quotas.throttled_seconds is not None:
            found.append(MetricSample(THROTTLED, (), quotas.throttled_seconds))
            groups = quotas.seen()
            shares = (
                [] if isinstance(groups, Gap) else [each.share for each in groups if each.periods >= _LEAST_PERIODS]
            )
            found.append(MetricSample(THROTTLED_SHARE, (), max(shares, default=0.0)))
        return tuple(found)

    def fill(self, case: Case) -> Case:
        seen = self._seen
        return case if seen is None else case._replace(pressure=self._pressure.seen(), reclaim=seen)

    def close(self) -> None:
        self._window.close()


def _followed(samples: tuple[MetricSample, ...]) -> Mapping[str, float]:
    """Under the names of the history, where it is the raw number."""
    named = ((_IN_HISTORY.get((metric, labels)), value) for metric, labels, value in samples)
    return {name: value for name, value in named if name is not None}


def _remembered(lately: ReclaimSeen | None) -> Mapping[str, float]:
    """A pass has a length only when one was seen."""
    if lately is None or not lately.calls:
        return {}
    seconds = sum(kind.seconds for kind in lately.kinds)
    return {RECLAIM_SECONDS: seconds / lately.calls, "reclaim_cpu_seconds": lately.cpu_seconds}


def _long_ones(lately: ReclaimSeen | None) -> tuple[Occurrence, ...]:
    return tuple(
        Occurrence(kind.longest_at, "reclaim-pass", f"{kind.kind}: {kind.longest_seconds:.1f} s, {kind.calls:,} calls")
        for kind in (lately.kinds if lately else ())
        if kind.longest_at is not None and kind.longest_seconds >= LONG_SECONDS
    )
