# SPDX-License-Identifier: Apache-2.0
"""How long each core's ksoftirqd waited for it (/proc/PID/schedstat), and what network softirqs left undone (softnet_stat); what
network cards were counted to suffer: transmit timeouts by queue (sysfs, any driver) and the driver's own counters of resets and
starvation (ethtool). Devices are those of the network namespace we run in."""

import json
import re
import select
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from zombiescope.errors import ObservationError
from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import Histogram
from zombiescope.facts.names import shown
from zombiescope.facts.plain import made_of_outcome
from zombiescope.facts.softirq import (
    RESET_COUNTERS,
    CoreLatency,
    DeviceCounters,
    KsoftirqdTime,
    SoftirqLook,
    WaitTimes,
)
from zombiescope.host.access import Host, names_or_nothing, read_or_nothing
from zombiescope.host.children import ShortLived
from zombiescope.kernel.bpf_object import BpfRefusedError
from zombiescope.kernel.bpf_poll import Places, PollLatency, places_in
from zombiescope.kernel.bpf_windows import SoftirqLatency
from zombiescope.kernel.network import read_driver_counters
from zombiescope.kernel.tracefs import SoftirqHist
from zombiescope.probes.kernel_text import cpu_list_count, number, read_or_gap, read_processes, refusal, state_of

_TYPES, _MOST_TYPES = b"/sys/kernel/btf/vmlinux", 64 << 20
_ONLINE, _POSSIBLE = b"/sys/devices/system/cpu/online", b"/sys/devices/system/cpu/possible"
_FIRST = re.compile(rb"[-,]")
_MOST_SECONDS, _FIRST_COUNTS_SECONDS = 60.0, 0.05
_WHAT = "cannot follow the network's softirqs"


def open_poll_latency(host: Host, *, has_clock: bool = True) -> PollLatency:
    """`has_clock`: asks for a clock of its own, else it goes by the kernel's ticks. Raises ObservationError where it is refused."""
    if not (cores := cpu_list_count(read_or_nothing(host, _POSSIBLE))):
        raise ObservationError(
            _WHAT, f"{_POSSIBLE.decode()} does not say how many cores there are", "zombiescope self-check"
        )
    first_online = number(_FIRST.split(read_or_nothing(host, _ONLINE).strip())[0]) or 0
    try:
        following = PollLatency(host.wall_clock, cores, first_online if has_clock else None, _places(host))
    except BpfRefusedError as error:
        raise ObservationError(_WHAT, error.why, error.hint) from error
    host.wait(_FIRST_COUNTS_SECONDS)
    return following


def _places(host: Host) -> Places:
    def work() -> bytes:
        try:
            return json.dumps(places_in(host.read(_TYPES, _MOST_TYPES))).encode()
        except ObservationError as error:
            return json.dumps(error.why).encode()
        except OSError as error:
            return json.dumps(f"{_TYPES.decode()}: {(error.strerror or str(error)).lower()}").encode()

    try:
        child = ShortLived(work)
    except OSError as error:
        raise ObservationError(
            _WHAT, f"no process could be started: {error.strerror}", "raise the limit of processes"
        ) from error
    while not (is_done := child.collect()):
        if not select.select([child.descriptor], [], [], _MOST_SECONDS)[0]:
            break
    said = child.end(kill=not is_done)
    found = json.loads(said) if said else "the process that read the kernel's types gave no answer"
    if isinstance(found, str):
        raise ObservationError(_WHAT, found, "boot a kernel with CONFIG_DEBUG_INFO_BTF")
    return Places(*found)


LATENCY_FACT = "softirq.latencies"
_PRESENCE = b"/proc/softirqs"
_NOT_HERE = Gap(
    LATENCY_FACT, "nothing happens in a folder, and its recording did not keep the latencies", "run it on the live host"
)
_GARBLED = Gap(LATENCY_FACT, "the recorded latencies are not in a form we know", "record the host again")


class LatencyWindow:
    is_least = False
    """They may have been longer: told by hist triggers."""

    def __init__(self, host: Host, ksoftirqd: Mapping[int, int] | Gap) -> None:
        self._host = host
        self._watch, self.refused = _begin(host, {} if isinstance(ksoftirqd, Gap) else ksoftirqd)

    def end(self) -> tuple[CoreLatency, ...] | Gap:
        watch = self._watch
        if isinstance(watch, Gap) and watch.reason.startswith(_PRESENCE.decode()):
            return watch
        outcome = self._host.experiment("softirq_latency", lambda: {**_told(watch), "refused": self.refused})
        if not isinstance(watch, Gap):
            watch.close()
        told = outcome or {}
        self.is_least, self.refused = told.get("by") == "hist", str(told.get("refused", ""))
        return _NOT_HERE if outcome is None else made_of_outcome(outcome, _kept, _GARBLED)


def _begin(host: Host, ksoftirqd: Mapping[int, int]) -> tuple[SoftirqLatency | SoftirqHist | Gap, str]:
    """And why BPF was refused, where it was."""
    if isinstance(said := read_or_gap(host, _PRESENCE, LATENCY_FACT), Gap):
        return said, ""
    if not host.is_live:
        return _NOT_HERE, ""
    try:
        return SoftirqLatency(host.wall_clock, ksoftirqd), ""
    except ObservationError as error:
        refused = Gap(LATENCY_FACT, error.why, error.hint)
    try:
        return SoftirqHist(), refused.reason
    except ObservationError as error:
        return refused._replace(reason=f"{refused.reason}; hist triggers: {error.why}"), refused.reason


def _told(watch: SoftirqLatency | SoftirqHist | Gap) -> dict[str, Any]:
    return {"gap": list(watch)} if isinstance(watch, Gap) else watch.read()


def _kept(outcome: dict[str, Any]) -> tuple[CoreLatency, ...]:
    return tuple(
        CoreLatency(int(core), *(_recorded_times(kinds[kind]) for kind in ("network", "others", "poll", "queue")))
        for core, kinds in sorted(outcome["cores"].items(), key=lambda pair: int(pair[0]))
    )


def _recorded_times(plain: Any) -> WaitTimes:
    buckets, longest, began, is_open = plain
    counts = Histogram(tuple(map(int, buckets)))
    return WaitTimes(counts, float(longest), None if began is None else float(began), bool(is_open))


FACT = "softirq.waited_seconds"
_SOFTNET = b"/proc/net/softnet_stat"
_NAME = re.compile(rb"ksoftirqd/([0-9]{1,5})")
_HEX = re.compile(rb"[0-9a-fA-F]{1,16}")
_DROPPED, _SQUEEZED = 1, 2


def find_ksoftirqd(host: Host) -> dict[int, int] | Gap:
    """Core -> process. They are among the first ones, so the search ends when every core has its own."""
    if isinstance(processes := read_processes(host, FACT), Gap):
        return processes
    wanted = cpu_list_count(read_or_nothing(host, _ONLINE)) or 0
    found: dict[int, int] = {}
    for process in processes:
        state = state_of(host, process)
        match = _NAME.fullmatch(state.name) if state else None
        if match:
            found[int(match[1])] = process
            if len(found) == wanted:
                break
    return found or Gap(FACT, "no ksoftirqd is visible: the kernel's threads are not in this view of /proc", "hostPID")


def read_softirq_wait(host: Host, ksoftirqd: dict[int, int] | Gap) -> SoftirqLook:
    dropped, squeezed = _softnet(host)
    return SoftirqLook(host.wall_clock(), host.monotonic(), _times(host, ksoftirqd), squeezed, dropped)


def _times(host: Host, ksoftirqd: dict[int, int] | Gap) -> dict[int, KsoftirqdTime] | Gap:
    if isinstance(ksoftirqd, Gap):
        return ksoftirqd
    found: dict[int, KsoftirqdTime] = {}
    gap = Gap(FACT, "no ksoftirqd tells how long it waited")
    for core, process in ksoftirqd.items():
        path = b"/proc/%d/schedstat" % process
        try:
            values = [number(field) for field in host.read(path).split()]
        except OSError as error:
            gap = refusal(FACT, path, error)
            continue
        if len(values) == 3 and None not in values:
            found[core] = KsoftirqdTime(*(value or 0 for value in values))
    return found or gap


def _softnet(host: Host) -> tuple[int | None, int | None]:
    """Of all cores: dropped, squeezed."""
    rows = map(bytes.split, read_or_nothing(host, _SOFTNET).splitlines())
    good = [row for row in rows if len(row) > _SQUEEZED and all(_HEX.fullmatch(field) for field in row[:3])]
    if not good:
        return None, None
    return sum(int(row[_DROPPED], 16) for row in good), sum(int(row[_SQUEEZED], 16) for row in good)


NIC_FACT = "nic_counters"
_DEVICES = b"/proc/net/dev"
_MOST_DEVICES, _MOST_QUEUES, _MOST = 64, 1024, 1 << 64


def read_nic_counters(host: Host) -> tuple[DeviceCounters, ...] | Gap:
    if isinstance(table := read_or_gap(host, _DEVICES, NIC_FACT), Gap):
        return table
    if not (names := _device_names(table)):
        return Gap(
            NIC_FACT, "this network namespace has no device but the loopback", "run it in the host's network namespace"
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
    queues = [queue for queue in names_or_nothing(host, folder)[:_MOST_QUEUES] if queue.startswith(b"tx-")]
    counts = [number(read_or_nothing(host, folder + b"/" + queue + b"/tx_timeout")) for queue in queues]
    told = [count for count in counts if count is not None]
    return sum(told) if told else None


def _counted(names: list[bytes]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in names:
        with suppress(OSError):
            counters = read_driver_counters(shown(name))
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
