# SPDX-License-Identifier: Apache-2.0
"""The network's softirqs followed for ever (bpf/poll_latency.bpf.c): a clock on one core looks at all of them, and stamps on every
softirq are put on and taken off. It lives by descriptors alone."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
import time
from collections.abc import Callable
from typing import NamedTuple

from zombiescope.facts.poll_latency import BUCKETS, LongTimes, PollCore, PollLook
from zombiescope.kernel.bpf_object import BpfObject, BpfRefusedError, count_run_times, parse_blob
from zombiescope.kernel.bpf_walk import packaged
from zombiescope.kernel.btf import Btf, BtfError
from zombiescope.kernel.perf_events import clock_alone, open_event

_NAME = "poll_latency.blob"
MOST_CORES = 512
LOOK_SECONDS, _SECONDS_PER_CORE = 0.01, 0.0002
"""Between two looks: a hundredth of a second; more from 50 cores on, so that looking at all of them stays as cheap."""
STAMPS = ("on_entry", "on_exit", "on_poll", "on_raise")
CLOCK = "on_clock"
_HEAD = struct.Struct("<6I3Q")
_CORES_AT = _HEAD.size + 8 * MOST_CORES
_STAMPED = 3 + 2 * (BUCKETS + 2)
_LONG = 3 + 2 * BUCKETS + 2
_CORE = struct.Struct(f"<{_STAMPED + 2 * _LONG + 1}Q")
_SET_PROGRAM, _ENABLE = 0x40042408, 0x2400
_LEAST_RUNS = 100
_NET_TX = 2


class Places(NamedTuple):
    """Bytes from where a core's own variables begin."""

    runqueue: int
    pending: int
    """The word of its raised softirqs."""
    counts: int
    """How often the network's softirqs ran, two numbers."""
    in_poll: int
    """Whether it polls the network now; 0 where the kernel keeps no such thing (before 6.5)."""


_VARIABLES = ("runqueues", "__softirq_pending", "pcpu_hot", "irq_stat", "kstat", "softnet_data")
_PENDING = ("__softirq_pending", "pcpu_hot.softirq_pending", "irq_stat.__softirq_pending")
"""A variable of its own (6.15), a field of pcpu_hot (x86 from 6.2 on), of irq_stat elsewhere."""


def places_in(types: bytes) -> Places:
    """From /sys/kernel/btf/vmlinux; takes a fifth of a second and some ten megabytes. Raises BtfError."""
    btf = Btf(types, _VARIABLES)
    runqueue, counts = btf.per_cpu("runqueues"), btf.per_cpu("kstat.softirqs")
    pending = next((place for place in map(btf.per_cpu, _PENDING) if place is not None), None)
    if runqueue is None or counts is None or pending is None:
        raise BtfError("it does not say where a core keeps its raised softirqs")
    return Places(runqueue, pending, counts + 4 * _NET_TX, btf.per_cpu("softnet_data.in_net_rx_action") or 0)


class PollLatency:
    """Counts from when it is made. Raises BpfRefusedError where BPF or its clock is refused."""

    def __init__(self, wall_clock: Callable[[], float], cores: int, clock_core: int, places: Places) -> None:
        self._places = places
        self._wall_clock, self._cores = wall_clock, min(cores, MOST_CORES)
        self._object = BpfObject(parse_blob(_NAME, packaged(_NAME)))
        self._links: list[int] = []
        self._clock: int | None = None
        self._stamped_since: float | None = None
        self._stamped = 0.0
        try:
            self._memory = self._object.map_memory("bss", _CORES_AT + MOST_CORES * _CORE.size, writable=True)
            struct.pack_into("<6I", self._memory, 0, self._cores, 0, *places)
            period = max(LOOK_SECONDS, _SECONDS_PER_CORE * self._cores)
            self._clock = open_event(clock_alone(int(period * 1e9)), clock_core)
            fcntl.ioctl(self._clock, _SET_PROGRAM, self._object.program_descriptor(CLOCK))
            fcntl.ioctl(self._clock, _ENABLE, 0)
        except OSError as error:
            self.close()
            raise _refused(error) from error
        except BaseException:
            self.close()
            raise

    def read(self) -> PollLook:
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        boot = self._wall_clock() - now / 1e9
        _, is_blind, *_, looks, _, latest = _HEAD.unpack_from(self._memory)
        if is_blind:
            raise BpfRefusedError(_WHAT, f"the run queue of core {is_blind - 1} is not where the kernel's types say")
        struct.pack_into("<Q", self._memory, _HEAD.size - 8, 0)
        rows = (_CORE.unpack_from(self._memory, _CORES_AT + core * _CORE.size) for core in range(self._cores))
        cores = tuple(_core(core, row, now, boot) for core, row in enumerate(rows))
        return PollLook(
            boot + now / 1e9, now / 1e9, cores, looks, latest / 1e9, bool(self._places.in_poll), self._stamped_seconds()
        )

    @property
    def is_stamping(self) -> bool:
        return self._stamped_since is not None

    def stamp(self) -> None:
        """Every softirq from now on. What was raised before is not known."""
        if self._links:
            return
        for core in range(self._cores):
            struct.pack_into("<3Q", self._memory, _CORES_AT + core * _CORE.size, 0, 0, 0)
        self._links.extend(self._object.attach(name) for name in STAMPS)
        self._stamped_since = time.monotonic()

    def rest(self) -> None:
        self._stamped, self._stamped_since = self._stamped_seconds(), None
        for link in self._links:
            os.close(link)
        self._links = []

    def stamp_for(self, seconds: float) -> float | None:
        """One slice, while nothing else is stamped. What the stamps took for one run of a softirq, in seconds, as the kernel
        counts it; None where too few ran."""
        counting = count_run_times()
        try:
            before = self.run_times()
            self.stamp()
            time.sleep(seconds)
            self.rest()
            after = self.run_times()
        finally:
            os.close(counting)
        spent = sum(after[name][0] - before[name][0] for name in STAMPS)
        runs = after["on_entry"][1] - before["on_entry"][1]
        return spent / runs / 1e9 if runs >= _LEAST_RUNS else None

    def run_times(self) -> dict[str, tuple[int, int]]:
        """By program, nanoseconds and runs: what the kernel counted, where somebody had it count."""
        return {name: self._object.run_time(name) for name in (*STAMPS, CLOCK)}

    def close(self) -> None:
        self.rest()
        if self._clock is not None:
            os.close(self._clock)
            self._clock = None
        self._object.close()

    def _stamped_seconds(self) -> float:
        since = self._stamped_since
        return self._stamped + (time.monotonic() - since if since is not None else 0.0)


_WHAT = "cannot follow the network's softirqs"


def _refused(error: OSError) -> BpfRefusedError:
    why = f"a clock on a core was refused: {(error.strerror or str(error)).lower()}"
    is_right = error.errno in (errno.EPERM, errno.EACCES)
    return BpfRefusedError(_WHAT, why, "run as root, or with CAP_PERFMON" if is_right else "", error.errno or 0)


def _core(core: int, row: tuple[int, ...], now: int, boot: float) -> PollCore:
    waits_at = _STAMPED
    return PollCore(
        core,
        row[-1],
        row[3 : 3 + BUCKETS],
        row[5 + BUCKETS : 5 + 2 * BUCKETS],
        _long(row[waits_at : waits_at + _LONG], now, boot),
        _long(row[waits_at + _LONG : waits_at + 2 * _LONG], now, boot),
    )


def _long(row: tuple[int, ...], now: int, boot: float) -> LongTimes:
    since, last, _ = row[:3]
    counts, sums = row[3 : 3 + BUCKETS], row[3 + BUCKETS : 3 + 2 * BUCKETS]
    longest, began = row[-2:]
    is_open = since and last > since
    return LongTimes(
        counts,
        sums,
        longest / 1e9,
        boot + began / 1e9 if began else None,
        max(now - since, 0) / 1e9 if is_open else 0.0,
    )
