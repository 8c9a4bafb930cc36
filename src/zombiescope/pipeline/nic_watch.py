# SPDX-License-Identifier: Apache-2.0
"""Follow the resets of network cards: by the kernel's log from now on, or, where it may not be read, by what the drivers count."""

from __future__ import annotations

from collections import Counter, deque

from zombiescope.analysis.nic_resets import ResetFolding
from zombiescope.facts.agent import MetricSample, Occurrence, Reading
from zombiescope.facts.gap import Gap
from zombiescope.facts.kernel_log import KernelLog, LogEvent, NicReset, ResetReason
from zombiescope.facts.metric_names import NIC_RESETS
from zombiescope.facts.network import DeviceCounters, NicCounters
from zombiescope.host.access import Host
from zombiescope.probes.readers.kernel_log import LogFollower, open_kernel_log, read_kernel_log
from zombiescope.probes.readers.nic_counters import read_nic_counters

_BY_COUNTER = {
    "suspected_poll_starvation": ResetReason.POLL_STARVATION,
    "missing_tx_cmpl": ResetReason.MISSING_COMPLETIONS,
    "missing_intr": ResetReason.MISSING_INTERRUPT,
    "wd_expired": ResetReason.KEEP_ALIVE,
    "admin_q_pause": ResetReason.ADMIN_QUEUE,
    "timeouts": ResetReason.TRANSMIT_TIMEOUT,
}
_MOST_SERIES = 12
_FROM_THE_START = (ResetReason.POLL_STARVATION, ResetReason.TRANSMIT_TIMEOUT)
_MOST_AT_START = 4
_MOST_EVENTS = 500
_COUNTERS_SECONDS = 60.0
_DAY = 86_400.0
"""What grew before is history, not a finding."""


class NicWatch:
    """`look` gives the resets that ended since the look before."""

    def __init__(self, host: Host, *, believe_users: bool = False) -> None:
        self._host = host
        self.log: LogFollower | Gap = open_kernel_log(host, believe_users=believe_users)
        self._folding = ResetFolding()
        self.events: list[LogEvent] = []
        """Of the look before."""
        self._before: dict[str, DeviceCounters] | None = None

    def look(self) -> list[NicReset]:
        if isinstance(self.log, Gap):
            return self._by_counters()
        self.events = self.log.read()
        found = [reset for event in self.events for reset in self._folding.add(event)]
        return found + self._folding.end(self._host.wall_clock())

    def close(self) -> None:
        if not isinstance(self.log, Gap):
            self.log.close()

    def _by_counters(self) -> list[NicReset]:
        """One counter that grew is one reason; the kernel's transmit timeouts only where the driver names none."""
        counters = read_nic_counters(self._host)
        if isinstance(counters, Gap):
            return []
        before, self._before = self._before, {each.device: each for each in counters}
        found: list[NicReset] = []
        for device in counters:
            grown = device.grown(before.get(device.device)) if before else {}
            named = {name: more for name, more in grown.items() if name in _BY_COUNTER}
            if len(named) > 1:
                named.pop("timeouts", None)
            now = self._host.wall_clock()
            found += [
                NicReset(now, device.device, _BY_COUNTER[name])
                for name, more in named.items()
                for _ in range(min(more, 100))
            ]
        return found


class NicProbe:
    """Counts resets, keeps each as an event, and gives the findings what the log says and the drivers count."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._watch = NicWatch(host)
        self._watch.look()
        self._log: KernelLog | Gap = read_kernel_log(host)
        self._events: deque[LogEvent] = deque(maxlen=_MOST_EVENTS)
        self._counts: Counter[tuple[str, ResetReason]] = Counter()
        self._began = self._read_at = host.wall_clock()
        self._first = self._last = read_nic_counters(host)
        known = () if isinstance(self._first, Gap) else self._first
        names = [each.device for each in known if each.counters][:_MOST_AT_START]
        # From nought on, so that the first reset is seen as an increase.
        self._counts.update({(name, reason): 0 for name in names for reason in _FROM_THE_START})

    def read(self) -> Reading:
        resets = self._watch.look()
        self._events.extend(self._watch.events)
        for reset in resets:
            self._counts[self._series(reset)] += 1
        samples = tuple(
            MetricSample(NIC_RESETS, (device, str(reason)), count)
            for (device, reason), count in sorted(self._counts.items())
        )
        return Reading(
            samples,
            {"nic_resets": float(self._counts.total())},
            self._watch.log if isinstance(self._watch.log, Gap) else None,
            tuple(Occurrence(reset.at, "nic-reset", _words(reset)) for reset in resets[:_MOST_SERIES]),
            self._facts(),
        )

    def close(self) -> None:
        self._watch.close()

    def _series(self, reset: NicReset) -> tuple[str, ResetReason]:
        """A new one takes the room of one that never counted anything; without such a one it is `other`."""
        key = (reset.device, reset.reason)
        if key not in self._counts and len(self._counts) >= _MOST_SERIES:
            empty = next((each for each, count in self._counts.items() if not count), None)
            if empty is None:
                return "other", reset.reason
            del self._counts[empty]
        return key

    def _facts(self) -> dict[str, KernelLog | NicCounters | Gap]:
        now = self._host.wall_clock()
        if not 0 <= now - self._read_at < _COUNTERS_SECONDS:
            self._read_at, self._last = now, read_nic_counters(self._host)
        if not 0 <= now - self._began < _DAY:
            self._began, self._first = now, self._last
        log, first, last = self._log, self._first, self._last
        if isinstance(log, KernelLog):
            log = log._replace(until=now, events=(*log.events, *self._events)[-_MOST_EVENTS:])
        if isinstance(first, Gap) or isinstance(last, Gap):
            return {
                "kernel_log": log,
                "nic_counters": last if isinstance(last, Gap) else Gap("nic_counters", "not read yet"),
            }
        return {"kernel_log": log, "nic_counters": NicCounters(now, max(now - self._began, 0.0), first, last)}


def _words(reset: NicReset) -> str:
    queue = f" queue {reset.queue}" if reset.queue is not None else ""
    core = f", its poll on CPU {reset.napi_cpu}" if reset.napi_cpu is not None else ""
    return f"{reset.device}{queue}: {reset.reason}{core}"
