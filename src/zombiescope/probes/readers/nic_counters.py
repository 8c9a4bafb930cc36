# SPDX-License-Identifier: Apache-2.0
"""What network cards were counted to suffer: transmit timeouts by queue (sysfs, any driver) and the driver's own counters of
resets and starvation (ethtool). Devices are those of the network namespace we run in."""

from __future__ import annotations

from typing import Any

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.facts.softirq import RESET_COUNTERS, DeviceCounters
from zombiescope.host.access import Host
from zombiescope.kernel.network import read_driver_counters
from zombiescope.probes.kernel_text import number, refusal

FACT = "nic_counters"
_DEVICES = b"/proc/net/dev"
_MOST_DEVICES = 64
_MOST_QUEUES = 1024
_MOST = 1 << 64


def read_nic_counters(host: Host) -> tuple[DeviceCounters, ...] | Gap:
    try:
        names = _device_names(host.read(_DEVICES))
    except OSError as error:
        return refusal(FACT, _DEVICES, error)
    if not names:
        return Gap(
            FACT, "this network namespace has no device but the loopback", "run it in the host's network namespace"
        )
    counted = host.experiment("nic_counters", lambda: _counted(names))
    return tuple(
        DeviceCounters(shown(name), _timeouts(host, name), _known((counted or {}).get(shown(name)))) for name in names
    )


def _device_names(table: bytes) -> list[bytes]:
    found = [line.partition(b":")[0].strip() for line in table.split(b"\n") if b":" in line]
    return [name for name in found if name and name != b"lo" and b"/" not in name][:_MOST_DEVICES]


def _timeouts(host: Host, name: bytes) -> int | None:
    """Of all its queues; None where no queue tells."""
    folder = b"/sys/class/net/" + name + b"/queues"
    total = None
    try:
        queues = host.subdirectories(folder)
    except OSError:
        return None
    for queue in queues[:_MOST_QUEUES]:
        if not queue.startswith(b"tx-"):
            continue
        try:
            value = number(host.read(folder + b"/" + queue + b"/tx_timeout"))
        except OSError:
            continue
        if value is not None:
            total = (total or 0) + value
    return total


def _counted(names: list[bytes]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in names:
        try:
            counters = read_driver_counters(shown(name))
        except OSError:
            continue
        found[shown(name)] = {what: counters[what] for what in RESET_COUNTERS if what in counters}
    return found


def _known(counters: object) -> dict[str, int]:
    """A recording comes from a stranger."""
    if not isinstance(counters, dict):
        return {}
    return {
        what: value
        for what, value in counters.items()
        if what in RESET_COUNTERS and type(value) is int and 0 <= value < _MOST
    }
