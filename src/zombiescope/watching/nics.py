# SPDX-License-Identifier: Apache-2.0
"""Watch the network cards: resets by the kernel's log, or, where it may not be read, by what the drivers count."""

from collections import Counter, deque
from itertools import chain
from typing import NamedTuple

from zombiescope.analysis.nic_resets import ResetFolding
from zombiescope.diagnosis.case import Case
from zombiescope.facts.agent import MetricSample, Occurrence, Reading
from zombiescope.facts.gap import Gap
from zombiescope.facts.kernel_log import KernelLog, LogEvent, NicReset, ResetReason
from zombiescope.facts.metric_names import NIC_RESETS
from zombiescope.facts.softirq import DeviceCounters, NicCounters
from zombiescope.host.access import Host
from zombiescope.probes.readers.kernel_log import LogFollower, open_kernel_log, read_kernel_log
from zombiescope.probes.readers.softirq_wait import read_nic_counters
from zombiescope.watching.watch import Quiet, Teller

_BY_COUNTER = {
    "suspected_poll_starvation": ResetReason.POLL_STARVATION,
    "missing_tx_cmpl": ResetReason.MISSING_COMPLETIONS,
    "missing_intr": ResetReason.MISSING_INTERRUPT,
    "wd_expired": ResetReason.KEEP_ALIVE,
    "admin_q_pause": ResetReason.ADMIN_QUEUE,
    "timeouts": ResetReason.TRANSMIT_TIMEOUT,
}
MOST_SERIES, _MOST_AT_START, _MOST_EVENTS = 8, 4, 500
_FROM_THE_START = (ResetReason.POLL_STARVATION, ResetReason.TRANSMIT_TIMEOUT)
_COUNTERS_SECONDS = 60.0
_DAY = 86_400.0
"""What grew before is history, not a finding."""


class NicsSeen(NamedTuple):
    log: KernelLog | Gap
    counters: NicCounters | Gap


class NicsWatch(Quiet):
    """A window: what the drivers counted in it, and the kernel's log at its end."""

    def __init__(self, host: Host, began_at: float, *, believe_users: bool = False) -> None:
        self._host, self._began_at, self._believe_users = host, began_at, believe_users
        self._first = self._last = read_nic_counters(host)

    def seen(self) -> NicsSeen | Gap:
        log = read_kernel_log(self._host, believe_users=self._believe_users)
        self._last = read_nic_counters(self._host)
        return self._told(log, self._host.wall_clock())

    def _told(self, log: KernelLog | Gap, now: float) -> NicsSeen:
        first, last = self._first, self._last
        if isinstance(last, Gap):
            return NicsSeen(log, last)
        counters = NicCounters(now, max(now - self._began_at, 0.0), last if isinstance(first, Gap) else first, last)
        return NicsSeen(log, counters)


class FollowedNicsWatch(NicsWatch):
    """For ever: resets are counted as they end, counters read again each minute and told for a day."""

    def __init__(self, host: Host, *, believe_users: bool = False) -> None:
        self._follower: LogFollower | Gap = open_kernel_log(host, believe_users=believe_users)
        self._folding = ResetFolding()
        self._events: deque[LogEvent] = deque(maxlen=_MOST_EVENTS)
        self._before: dict[str, DeviceCounters] | None = None
        self._resets(host)
        self._events.clear()
        self._log = read_kernel_log(host, believe_users=believe_users)
        super().__init__(host, host.wall_clock())
        self._read_at = self._began_at
        self.ended: list[NicReset] = []
        """By the last look."""
        known = () if isinstance(self._first, Gap) else self._first
        names = [each.device for each in known if each.counters][:_MOST_AT_START]
        # From zero on, so that the first reset is seen as an increase.
        self.counts = Counter({(name, reason): 0 for name in names for reason in _FROM_THE_START})

    @property
    def gap(self) -> Gap | None:
        """Why the log is not followed."""
        return self._follower if isinstance(self._follower, Gap) else None

    def look(self) -> None:
        self.ended = self._resets(self._host)
        for reset in self.ended:
            self.counts[self._series(reset)] += 1
        now = self._host.wall_clock()
        if not 0 <= now - self._read_at < _COUNTERS_SECONDS:
            self._read_at, self._last = now, read_nic_counters(self._host)
        if not 0 <= now - self._began_at < _DAY:
            self._began_at, self._first = now, self._last

    def seen(self) -> NicsSeen | Gap:
        log, now = self._log, self._host.wall_clock()
        if isinstance(log, KernelLog):
            log = log._replace(until=now, events=(*log.events, *self._events)[-_MOST_EVENTS:])
        return self._told(log, now)

    def close(self) -> None:
        if not isinstance(self._follower, Gap):
            self._follower.close()

    def _resets(self, host: Host) -> list[NicReset]:
        if isinstance(self._follower, Gap):
            return self._by_counters(host)
        events = self._follower.read()
        self._events.extend(events)
        return [*chain.from_iterable(map(self._folding.add, events)), *self._folding.end(host.wall_clock())]

    def _by_counters(self, host: Host) -> list[NicReset]:
        """One counter that grew is one reason; the kernel's transmit timeouts only where the driver names none."""
        if isinstance(counters := read_nic_counters(host), Gap):
            return []
        before, self._before = self._before, {each.device: each for each in counters}
        found: list[NicReset] = []
        for device in counters:
            grown = device.grown(before.get(device.device)) if before else {}
            named = {name: more for name, more in grown.items() if name in _BY_COUNTER}
            if len(named) > 1:
                named.pop("timeouts", None)
            now = host.wall_clock()
            found += [
                NicReset(now, device.device, _BY_COUNTER[name])
                for name, more in named.items()
                for _ in range(min(more, 100))
            ]
        return found

    def _series(self, reset: NicReset) -> tuple[str, ResetReason]:
        """A new one takes the room of one that never counted anything; without such a one it is `other`."""
        key = (reset.device, reset.reason)
        if key not in self.counts and len(self.counts) >= MOST_SERIES:
            empty = next((each for each, count in self.counts.items() if not count), None)
            if empty is None:
                return "other", reset.reason
            del self.counts[empty]
        return key


class NicsTeller(Teller):
    def __init__(self, host: Host) -> None:
        self._watch = FollowedNicsWatch(host)

    def read(self) -> Reading:
        watch = self._watch
        watch.look()
        samples = tuple(
            MetricSample(NIC_RESETS, (device, str(reason)), count)
            for (device, reason), count in sorted(watch.counts.items())
        )
        happened = tuple(Occurrence(reset.at, "nic-reset", _words(reset)) for reset in watch.ended[:MOST_SERIES])
        return Reading(samples, {"nic_resets": float(watch.counts.total())}, watch.gap, happened)

    def fill(self, case: Case) -> Case:
        return place_nics(case, self._watch.seen())

    def close(self) -> None:
        self._watch.close()


def place_nics(case: Case, seen: NicsSeen | Gap) -> Case:
    """Where all failed, log and counters keep their own gaps."""
    return case if isinstance(seen, Gap) else case._replace(kernel_log=seen.log, nic_counters=seen.counters)


def _words(reset: NicReset) -> str:
    queue = f" queue {reset.queue}" if reset.queue is not None else ""
    core = f", its poll on CPU {reset.napi_cpu}" if reset.napi_cpu is not None else ""
    return f"{reset.device}{queue}: {reset.reason}{core}"
