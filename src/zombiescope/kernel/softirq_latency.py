# SPDX-License-Identifier: Apache-2.0
"""From raise to run of softirqs, counted in the kernel for a bounded window: by BPF (bpf/softirq_latency.bpf.c), which lives by
descriptors alone, so that a killed process leaves nothing behind; or by hist triggers in a private tracefs instance, where BPF is
refused.

Triggers and the synthetic event that carries the wait outlive their process, so a child of ours takes them away: when the window
ends, when we are killed, and after an hour at the latest. One that was killed too is cleaned up after by the next run. A trigger
stamps every raise: of a softirq raised again while it waited only the last is told, so that a wait is *at least* this long.
"""

from __future__ import annotations

import os
import re
import select
import signal
import struct
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from zombiescope.kernel.bpf_object import BpfObject, entries, packaged, parse_blob
from zombiescope.kernel.tracefs import Instance, TracefsError, append_below, open_tracefs, read_below, start_time

_BLOB = "softirq_latency.blob"
_CORES, _VECTORS, _BUCKETS = 512, 10, 32
_TIMES = struct.Struct(f"<{_BUCKETS + 2}Q")
_HEAD = struct.Struct(f"<II{_VECTORS}Q2Q")
_CORE_BYTES = _HEAD.size + 4 * _TIMES.size
_PROGRAMS = ("on_entry", "on_exit", "on_poll", "on_switch", "on_wakeup", "on_raise")
_NETWORK = (2, 3)
_WAITING = struct.Struct("<QII")


class SoftirqLatency:
    """Counts from when it is made. Raises BpfRefusedError where BPF is refused."""

    def __init__(self, wall_clock: Callable[[], float], ksoftirqd: Mapping[int, int]) -> None:
        self._wall_clock = wall_clock
        self._object = BpfObject(parse_blob(_BLOB, packaged(_BLOB)))
        self._links: list[int] = []
        try:
            self._memory = self._object.map_memory("bss", _CORES * _CORE_BYTES, writable=True)
            for core, process in ksoftirqd.items():
                if core < _CORES:
                    struct.pack_into("<I", self._memory, core * _CORE_BYTES, process)
            self._links.extend(self._object.attach(name) for name in _PROGRAMS)
        except BaseException:
            self.close()
            raise

    def read(self) -> dict[str, Any]:
        """Plain JSON: by core, the buckets of each kind, the longest, when it began, whether it is not over."""
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        boot = self._wall_clock() - now / 1e9
        cores = {}
        threads = self._waiting_threads()
        for core in range(_CORES):
            found = self._core(core * _CORE_BYTES, now, boot, threads.get(core, []))
            if found is not None:
                cores[str(core)] = found
        missed = sum(self._object.missed_runs(name) for name in _PROGRAMS)
        return {"cores": cores, "missed": missed}

    def close(self) -> None:
        for link in self._links:
            os.close(link)
        self._links = []
        self._object.close()

    def _waiting_threads(self) -> dict[int, list[int]]:
        """Since when threads wait that poll the network, by core."""
        found: dict[int, list[int]] = {}
        for _, value in entries(self._object.map_descriptor("waiting"), 4, _WAITING.size):
            since, core, _ = _WAITING.unpack(value)
            found.setdefault(core, []).append(since)
        return found

    def _core(self, at: int, now: int, boot: float, threads: list[int]) -> dict[str, list[Any]] | None:
        head = _HEAD.unpack_from(self._memory, at)
        raised, waits_since = head[2 : 2 + _VECTORS], head[-1]
        rows = {}
        for i, kind in enumerate(_KINDS):
            *buckets, longest, began = _TIMES.unpack_from(self._memory, at + _HEAD.size + i * _TIMES.size)
            rows[kind] = (buckets, longest, began)
        pending = {
            "network": [*threads, *(stamp for vector, stamp in enumerate(raised) if stamp and vector in _NETWORK)],
            "others": [stamp for vector, stamp in enumerate(raised) if stamp and vector not in _NETWORK],
            "queue": [waits_since] if waits_since else [],
        }
        if not any(any(buckets) for buckets, _, _ in rows.values()) and not any(pending.values()):
            return None
        return {kind: _plain(rows[kind], pending.get(kind, []), now, boot) for kind in _KINDS}


def _plain(row: tuple[list[int], int, int], pending: list[int], now: int, boot: float) -> list[Any]:
    """A wait that is not over counts if it is the longest."""
    buckets, longest, began = row
    oldest = min(pending, default=now)
    is_open = now - oldest > longest
    if is_open:
        longest, began = now - oldest, oldest
    while buckets and not buckets[-1]:
        buckets.pop()
    return [buckets, longest / 1e9, round(boot + began / 1e9, 6) if began else None, is_open]


_RAISE, _ENTRY = "events/irq/softirq_raise", "events/irq/softirq_entry"
_FILTER = "if vec==2||vec==3"
_CPU_KEYS = ("common_cpu", "cpu")
"""The key of the core, and what it was called before 5.14 and its stable relatives."""
_MOST_SECONDS = 3900.0
_NAME = re.compile(r"zombiescope_([0-9]+)_([0-9]+)")
_BUCKET = re.compile(rb"\{ c: +([0-9]+), lat: ~ 2\^([0-9]+) +\} hitcount: +([0-9]+)")
_LONGEST = re.compile(rb"\{ (?:common_)?cpu: +([0-9]+), vec: +[0-9]+ \} hitcount: +[0-9]+\s+max: +([0-9]+)")
_DROPPED = re.compile(rb"(?m)^ +Dropped: ([0-9]+)")
_KINDS = ("network", "others", "poll", "queue")
_WHAT = "cannot count softirqs by hist triggers"
_MOST_POWER = 31


class SoftirqHist:
    """Counts from when it is made. Raises TracefsError where the kernel has no such triggers or refuses them."""

    def __init__(self) -> None:
        remove_leftovers()
        self._instance = Instance("hist")
        self._event = f"zombiescope_{os.getpid()}_{start_time(os.getpid())}"
        self._guard: tuple[int, int] | None = None
        try:
            self._instance.read(f"{_ENTRY}/hist")
            self._guard = _begin_guard(self._instance.name, self._event)
            self._begin()
        except OSError as error:
            self.close()
            why = f"{(error.strerror or str(error)).lower()}: this kernel has none, or not all that it takes"
            raise TracefsError(_WHAT, why, "a kernel with CONFIG_HIST_TRIGGERS, as root") from error

    def read(self) -> dict[str, Any]:
        """As BPF tells it; when the longest began is not known."""
        text = self._instance.read(f"events/synthetic/{self._event}/hist")
        buckets, dropped = buckets_by_core(text)
        longest = longest_by_core(self._instance.read(f"{_ENTRY}/hist"))
        nothing = [[], 0.0, None, False]
        cores = {
            str(core): {
                kind: [buckets.get(core, []), longest.get(core, 0.0), None, False] if kind == "network" else nothing
                for kind in _KINDS
            }
            for core in sorted({*buckets, *longest})
        }
        return {"cores": cores, "missed": dropped, "by": "hist"}

    def close(self) -> None:
        """Waits until everything is taken away."""
        if self._guard is not None:
            child, pipe = self._guard
            self._guard = None
            os.close(pipe)
            with suppress(ChildProcessError):
                os.waitpid(child, 0)
        self._instance.close()

    def _begin(self) -> None:
        self._instance.append("synthetic_events", f"{self._event} u64 lat; unsigned int c", shared=True)
        for number, cpu in enumerate(_CPU_KEYS):
            try:
                self._instance.write(f"{_RAISE}/trigger", f"hist:keys={cpu},vec:ts0=common_timestamp.usecs {_FILTER}")
            except OSError:
                if number + 1 == len(_CPU_KEYS):
                    raise
                continue
            self._instance.write(
                f"{_ENTRY}/trigger",
                f"hist:keys={cpu},vec:lat=common_timestamp.usecs-$ts0,c={cpu}"
                f":onmatch(irq.softirq_raise).trace({self._event},$lat,$c):onmax($lat).save(vec) {_FILTER}",
            )
            break
        self._instance.write(f"events/synthetic/{self._event}/trigger", "hist:keys=c,lat.log2")


def buckets_by_core(text: bytes) -> tuple[dict[int, list[int]], int]:
    """In our powers (the kernel's 2^n holds what is more than 2^(n-1) microseconds and at most 2^n), and how many it dropped."""
    dropped = _DROPPED.search(text)
    found: dict[int, list[int]] = {}
    for core, power, count in _BUCKET.findall(text):
        row = found.setdefault(int(core), [])
        place = min(int(power), _MOST_POWER)
        row.extend([0] * (place + 1 - len(row)))
        row[place] += int(count)
    return found, int(dropped[1]) if dropped else 0


def longest_by_core(text: bytes) -> dict[int, float]:
    """In seconds, of both softirqs of the network."""
    longest: dict[int, float] = {}
    for core, micros in _LONGEST.findall(text):
        longest[int(core)] = max(longest.get(int(core), 0.0), int(micros) / 1e6)
    return longest


def remove_leftovers() -> int:
    """Of runs that were killed together with the child that should have cleaned up."""
    top = open_tracefs()
    try:
        with suppress(OSError):
            text = read_below(top, "synthetic_events").decode(errors="replace")
            owners = {(match[1], match[2]) for match in map(_NAME.match, text.split("\n")) if match}
            gone = [pair for pair in owners if start_time(int(pair[0])) != int(pair[1])]
            for process, begun in gone:
                _remove(top, f"zombiescope-{process}-{begun}-hist", f"zombiescope_{process}_{begun}")
            return len(gone)
        return 0
    finally:
        os.close(top)


def _begin_guard(instance: str, event: str) -> tuple[int, int]:
    reading, writing = os.pipe2(os.O_CLOEXEC)
    child = os.fork()
    if child:
        os.close(reading)
        return child, writing
    try:
        os.close(writing)
        _guard(reading, instance, event)
    finally:
        os._exit(0)


def _guard(reading: int, instance: str, event: str) -> None:
    """In the child: waits for the end of its parent, whatever that was, and takes everything away."""
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    top = open_tracefs()
    select.select([reading], [], [], _MOST_SECONDS)
    _remove(top, instance, event)


def _remove(top: int, instance: str, event: str) -> None:
    """Those that read a variable before the one that has it; then the instance, then the event, which is of the whole machine."""
    for place in (f"events/synthetic/{event}", _ENTRY, _RAISE):
        with suppress(OSError):
            path = f"instances/{instance}/{place}/trigger"
            for line in read_below(top, path).decode(errors="replace").split("\n"):
                if line and not line.startswith("#"):
                    append_below(top, path, f"!{line.removesuffix(' [active]')}")
    with suppress(OSError):
        os.rmdir(f"instances/{instance}", dir_fd=top)
    with suppress(OSError):
        append_below(top, "synthetic_events", f"!{event}")
