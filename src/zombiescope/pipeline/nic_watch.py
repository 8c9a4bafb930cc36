# SPDX-License-Identifier: Apache-2.0
"""Follow the resets of network cards: by the kernel's log from now on, or, where it may not be read, by what the drivers count."""

from __future__ import annotations

from collections import Counter

from zombiescope.analysis.nic_resets import ResetFolding
from zombiescope.facts.agent import MetricSample, Reading
from zombiescope.facts.gap import Gap
from zombiescope.facts.kernel_log import NicReset, ResetReason
from zombiescope.facts.metric_names import NIC_RESETS
from zombiescope.facts.network import DeviceCounters
from zombiescope.host.access import Host
from zombiescope.probes.readers.kernel_log import LogFollower, open_kernel_log
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


class NicWatch:
    """`look` gives the resets that ended since the look before."""

    def __init__(self, host: Host, *, believe_users: bool = False) -> None:
        self._host = host
        self.log: LogFollower | Gap = open_kernel_log(host, believe_users=believe_users)
        self._folding = ResetFolding()
        self._before: dict[str, DeviceCounters] | None = None

    def look(self) -> list[NicReset]:
        if isinstance(self.log, Gap):
            return self._by_counters()
        found = [reset for event in self.log.read() for reset in self._folding.add(event)]
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
    def __init__(self, host: Host) -> None:
        self._watch = NicWatch(host)
        self._watch.look()
        self._counts: Counter[tuple[str, ResetReason]] = Counter()
        devices = read_nic_counters(host)
        names = [] if isinstance(devices, Gap) else [each.device for each in devices if each.counters][:_MOST_AT_START]
        # From nought on, so that the first reset is seen as an increase.
        self._counts.update({(name, reason): 0 for name in names for reason in _FROM_THE_START})

    def read(self) -> Reading:
        for reset in self._watch.look():
            key = (reset.device, reset.reason)
            is_known = key in self._counts or len(self._counts) < _MOST_SERIES
            self._counts[key if is_known else ("other", reset.reason)] += 1
        samples = tuple(
            MetricSample(NIC_RESETS, (device, str(reason)), count)
            for (device, reason), count in sorted(self._counts.items())
        )
        remembered = {"nic_resets": float(self._counts.total())}
        return Reading(samples, remembered, self._watch.log if isinstance(self._watch.log, Gap) else None)

    def close(self) -> None:
        self._watch.close()
