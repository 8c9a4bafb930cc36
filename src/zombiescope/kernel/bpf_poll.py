# SPDX-License-Identifier: Apache-2.0
"""The network's softirqs and the threads that poll it, followed for ever (bpf/poll_latency.bpf.c): a clock on one core looks at all
of them, and stamps on every softirq are put on and taken off. It lives by descriptors alone."""

import errno
import fcntl
import os
import struct
import time
from collections.abc import Callable
from typing import NamedTuple

from zombiescope.errors import reason_of
from zombiescope.facts.softirq import BUCKETS, LongTimes, PollCore, PollLook, ThreadRuns
from zombiescope.host.safe_paths import held_open
from zombiescope.kernel.bpf_object import BpfObject, BpfRefusedError, count_run_times, packaged
from zombiescope.kernel.btf import Btf, BtfError
from zombiescope.kernel.perf_events import clock_alone, open_event

MOST_CORES, MOST_THREADS = 512, 256
LOOK_SECONDS, _SECONDS_PER_CORE = 0.01, 0.0002
"""Between two looks: a hundredth of a second; more from 50 cores on, so that looking at all of them stays as cheap."""
STAMPS = ("on_entry", "on_exit", "on_poll", "on_raise")
CLOCK, TICKS, _FIND = "on_clock", "on_tick", "find_threads"
_HEAD = struct.Struct("<6I4Q")
_CORES_AT = _HEAD.size + 8 * MOST_CORES
_STAMPED, _LONG = 3 + 2 * (BUCKETS + 2), 3 + 2 * BUCKETS + 2
_CORE = struct.Struct(f"<{_STAMPED + 2 * _LONG + 5}Q")
_THREADS_AT = _CORES_AT + MOST_CORES * _CORE.size
_THREADS_HEAD, _THREAD, _FOUND = struct.Struct("<2I2Q"), struct.Struct("<Q2I5Q"), struct.Struct("<Q2I")
_THREAD_AT = _THREADS_AT + _THREADS_HEAD.size
_FOUND_AT = _THREAD_AT + MOST_THREADS * _THREAD.size
_BYTES = _FOUND_AT + MOST_THREADS * _FOUND.size
_SET_PROGRAM, _ENABLE = 0x40042408, 0x2400
_LEAST_RUNS = 100
MOST_TICKS = 10_000
"""Per second, at some 150 ns each: 0.15 % of a core. As many as 40 busy cores have at 250 Hz."""
_REST_SECONDS, _NET_TX = 300.0, 2


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
    """Counts from when it is made. Raises BpfRefusedError where BPF is refused. `clock_core`: which core has the clock; None: it
    goes by the kernel's ticks, as it does where a clock is refused."""

    def __init__(self, wall_clock: Callable[[], float], cores: int, clock_core: int | None, places: Places) -> None:
        self._wall_clock, self._cores, self._places = wall_clock, min(cores, MOST_CORES), places
        self._object = BpfObject(packaged("poll_latency.blob"))
        self._clock: int | None = None
        self._stamped_since: float | None = None
        self._stamped = 0.0
        self._threads: dict[tuple[int, int], int] = {}
        """By task and number: the place it is looked at in."""
        self._ticked: tuple[float, int] | None = None
        """When and how many, where ticks are the clock."""
        try:
            self._memory = self._object.map_memory("bss", _BYTES, writable=True)
            period = int(max(LOOK_SECONDS, _SECONDS_PER_CORE * self._cores) * 1e9)
            struct.pack_into("<6IQ", self._memory, 0, self._cores, 0, *places, period)
            self._clock = self._own_clock(period, clock_core)
            if self._clock is None:
                self._clock, self._ticked = self._object.attach(TICKS), (time.monotonic(), 0)
        except OSError as error:
            self.close()
            raise _refused(error) from error
        except BaseException:
            self.close()
            raise

    def _own_clock(self, period: int, core: int | None) -> int | None:
        """None where it is not permitted: some distributions ask for more rights than for BPF (kernel.perf_event_paranoid)."""
        if core is None:
            return None
        try:
            clock = open_event(clock_alone(period), core)
        except OSError as error:
            if error.errno in (errno.EPERM, errno.EACCES, errno.ENOSYS):
                return None
            raise
        try:
            fcntl.ioctl(clock, _SET_PROGRAM, self._object.programs[CLOCK])
            fcntl.ioctl(clock, _ENABLE, 0)
        except BaseException:
            os.close(clock)
            raise
        return clock

    def read(self) -> PollLook:
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        boot = self._wall_clock() - now / 1e9
        _, is_blind, *_, looks, _, latest = _HEAD.unpack_from(self._memory)
        if is_blind:
            raise BpfRefusedError(_WHAT, f"the run queue of core {is_blind - 1} is not where the kernel's types say")
        struct.pack_into("<Q", self._memory, _HEAD.size - 8, 0)
        rows = [_CORE.unpack_from(self._memory, _CORES_AT + core * _CORE.size) for core in range(self._cores)]
        if self._ticked:
            self._spare(now / 1e9, sum(row[-1] for row in rows), *self._ticked)
        waiting = self._waiting_threads(now)
        cores = tuple(_core(core, row, now, boot, waiting.get(core, 0.0)) for core, row in enumerate(rows))
        sees_polls, stamped, found = bool(self._places.in_poll), self._stamped_seconds(), self._follow_threads()
        steady = now / 1e9
        return PollLook(
            boot + steady, steady, cores, looks, latest / 1e9, sees_polls, stamped, len(self._threads), found
        )

    def _spare(self, now: float, ticks: int, since: float, before: int) -> None:
        """Leaves ticks alone for a while where there are too many, and says so."""
        seconds = now - since
        if self._clock is None:
            if seconds >= _REST_SECONDS:
                self._clock, self._ticked = self._object.attach(TICKS), (now, ticks)
            raise _too_many()
        if seconds < 1.0:
            return
        self._ticked = (now, ticks)
        if (ticks - before) / seconds > MOST_TICKS:
            os.close(self._clock)
            self._clock = None
            raise _too_many()

    def _waiting_threads(self, now: int) -> dict[int, float]:
        """By core: seconds of the longest wait of a thread that is not over."""
        found: dict[int, float] = {}
        for place in self._threads.values():
            _, _, core, since, last, *_ = _THREAD.unpack_from(self._memory, _THREAD_AT + place * _THREAD.size)
            if since and last > since:
                found[core] = max(found.get(core, 0.0), max(now - since, 0) / 1e9)
        return found

    def _follow_threads(self) -> int:
        """Those that poll the network now; how many there are."""
        self._object.run(_FIND)
        _, number, *_ = _THREADS_HEAD.unpack_from(self._memory, _THREADS_AT)
        end = _FOUND_AT + min(number, MOST_THREADS) * _FOUND.size
        found = {(task, pid) for task, pid, _ in _FOUND.iter_unpack(self._memory[_FOUND_AT:end])}
        for gone in self._threads.keys() - found:
            _THREAD.pack_into(self._memory, _THREAD_AT + self._threads.pop(gone) * _THREAD.size, *(0,) * 8)
        free = iter(sorted(set(range(MOST_THREADS)) - set(self._threads.values())))
        for task, pid in found - self._threads.keys():
            place = self._threads[task, pid] = next(free)
            at = _THREAD_AT + place * _THREAD.size
            _THREAD.pack_into(self._memory, at, 0, pid, *(0,) * 6)
            struct.pack_into("<Q", self._memory, at, task)  # last: from here on it is looked at
        struct.pack_into("<I", self._memory, _THREADS_AT, max(self._threads.values(), default=-1) + 1)
        return int(number)

    @property
    def is_stamping(self) -> bool:
        return self._stamped_since is not None

    def stamp(self) -> None:
        """Every softirq from now on. What was raised before is not known."""
        if self.is_stamping:
            return
        for core in range(self._cores):
            struct.pack_into("<3Q", self._memory, _CORES_AT + core * _CORE.size, 0, 0, 0)
        self._object.hold(STAMPS)
        self._stamped_since = time.monotonic()

    def rest(self) -> None:
        self._stamped, self._stamped_since = self._stamped_seconds(), None
        self._object.let_go()

    def stamp_for(self, seconds: float) -> float | None:
        """One slice, while nothing else is stamped. What the stamps took for one run of a softirq, in seconds, as the kernel
        counts it; None where too few ran."""
        with held_open(count_run_times()):
            before = self.run_times()
            self.stamp()
            time.sleep(seconds)
            self.rest()
            after = self.run_times()
        spent = sum(after[name][0] - before[name][0] for name in STAMPS)
        runs = after["on_entry"][1] - before["on_entry"][1]
        return spent / runs / 1e9 if runs >= _LEAST_RUNS else None

    def run_times(self) -> dict[str, tuple[int, int]]:
        """By program, nanoseconds and runs: what the kernel counted, where somebody had it count."""
        return {name: self._object.run_time(name) for name in (*STAMPS, CLOCK, TICKS)}

    def close(self) -> None:
        self.rest()
        if self._clock is not None:
            os.close(self._clock)
            self._clock = None
        self._object.close()

    def _stamped_seconds(self) -> float:
        return self._stamped + (0.0 if self._stamped_since is None else time.monotonic() - self._stamped_since)


_WHAT = "cannot follow the network's softirqs"


def _refused(error: OSError) -> BpfRefusedError:
    hint = "run as root, or with CAP_PERFMON" if isinstance(error, PermissionError) else ""
    return BpfRefusedError(_WHAT, f"a clock on a core was refused: {reason_of(error)}", hint, error.errno or 0)


def _too_many() -> BpfRefusedError:
    why = f"a clock is refused, and of the kernel's own ticks there are more than {MOST_TICKS:,} per second, which costs too much"
    return BpfRefusedError(_WHAT, why, "sysctl kernel.perf_event_paranoid=2")


def _core(core: int, row: tuple[int, ...], now: int, boot: float, thread_waits: float) -> PollCore:
    runs, thread_runs, thread_ns, thread_longs, _ = row[-5:]
    waits = _long(row[_STAMPED : _STAMPED + _LONG], now, boot)
    return PollCore(
        core,
        runs,
        row[3 : 3 + BUCKETS],
        row[5 + BUCKETS : 5 + 2 * BUCKETS],
        waits._replace(open_seconds=max(waits.open_seconds, thread_waits)),
        _long(row[_STAMPED + _LONG : _STAMPED + 2 * _LONG], now, boot),
        ThreadRuns(thread_runs, thread_ns / 1e9, thread_longs),
    )


def _long(row: tuple[int, ...], now: int, boot: float) -> LongTimes:
    since, last, _, *_, longest, began = row
    return LongTimes(
        row[3 : 3 + BUCKETS],
        row[3 + BUCKETS : 3 + 2 * BUCKETS],
        longest / 1e9,
        boot + began / 1e9 if began else None,
        max(now - since, 0) / 1e9 if since and last > since else 0.0,
    )
