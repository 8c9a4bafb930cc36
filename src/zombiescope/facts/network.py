# SPDX-License-Identifier: Apache-2.0
"""What drivers count of their cards: transmit timeouts of every queue (sysfs), starvation and resets (ethtool)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from zombiescope.facts.gap import Gap

RESET_COUNTERS = (
    "total_resets", "suspected_poll_starvation", "missing_tx_cmpl", "tx_timeout", "os_netdev_wd", "wd_expired", "missing_intr",
    "missing_first_intr", "missing_admin_interrupt", "admin_to", "admin_q_pause", "reset_fail", "other_reset_causes",
    "tx_timeouts", "tx_tx_timeouts",
)  # fmt: skip
"""Names as drivers give them: the ENA driver's, in the kernel and in Amazon's package, and virtio's."""


class DeviceCounters(NamedTuple):
    device: str
    timeouts: int | None
    """Transmit timeouts of all its queues, as the kernel counts them for any driver; None where it does not."""
    counters: Mapping[str, int]
    """Those of RESET_COUNTERS that the driver has, since it was loaded."""

    def grown(self, before: DeviceCounters | None) -> dict[str, int]:
        """What is more than before; a counter that ran backwards began anew."""
        if before is None:
            return {}
        pairs = {
            name: (value, before.counters[name]) for name, value in self.counters.items() if name in before.counters
        }
        if self.timeouts is not None and before.timeouts is not None:
            pairs["timeouts"] = (self.timeouts, before.timeouts)
        more = {name: now - old if now >= old else now for name, (now, old) in pairs.items()}
        return {name: value for name, value in more.items() if value}


class NicCounters(NamedTuple):
    at: float
    seconds: float
    """Between the first look and the last; 0 when there was one."""
    first: tuple[DeviceCounters, ...]
    last: tuple[DeviceCounters, ...]
    gaps: tuple[Gap, ...] = ()

    def grown(self) -> dict[str, dict[str, int]]:
        """By device, what grew between the two looks."""
        before = {device.device: device for device in self.first}
        found = {now.device: now.grown(before[now.device]) for now in self.last if now.device in before}
        return {device: more for device, more in found.items() if more}
