# SPDX-License-Identifier: Apache-2.0
"""Counted in the kernel for a bounded window: reclaim, call by call (bpf/reclaim_passes.bpf.c), and softirqs from raise to run
(bpf/softirq_latency.bpf.c). They live by descriptors alone, so that a killed process leaves nothing behind."""

import struct
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from zombiescope.facts.softirq import CoreLatency
from zombiescope.kernel.bpf_object import BpfObject, entries, packaged

_BUCKETS = 32


class _Window:
    """Counts from when it is made. Raises BpfRefusedError where BPF is refused."""

    def __init__(self, blob: str, size: int, programs: Sequence[str], wall_clock: Callable[[], float]) -> None:
        self._programs, self._wall_clock = programs, wall_clock
        self._object = BpfObject(packaged(blob))
        try:
            self._memory = self._object.map_memory("bss", size, writable=True)
            self._prepare()
            self._object.hold(programs)
        except BaseException:
            self.close()
            raise

    def _prepare(self) -> None:
        """What the programs must know before they begin."""

    def _missed(self) -> int:
        return sum(map(self._object.missed_runs, self._programs))

    def close(self) -> None:
        self._object.close()


_PASSES = struct.Struct(f"<{8 + _BUCKETS}Q")
_PASS_KINDS = ("direct", "limit")
_FULL_AT = len(_PASS_KINDS) * _PASSES.size
_GROUP = struct.Struct("<3Q")


class ReclaimPasses(_Window):
    def __init__(self, wall_clock: Callable[[], float]) -> None:
        self._began = time.clock_gettime(time.CLOCK_MONOTONIC)
        # Ends first: what is seen to begin is also seen to end.
        programs = ("on_direct_end", "on_limit_end", "on_direct_begin", "on_limit_begin")
        super().__init__("reclaim_passes.blob", _FULL_AT + 8, programs, wall_clock)

    def read(self) -> dict[str, Any]:
        """Plain JSON: seconds of the window, and by kind calls, fruitless, pages, seconds, on a core, longest, when, buckets."""
        now = time.clock_gettime(time.CLOCK_MONOTONIC)
        boot = self._wall_clock() - now
        rows = _PASSES.iter_unpack(self._memory[:_FULL_AT])
        kinds = {name: _plain_passes(row, boot) for name, row in zip(_PASS_KINDS, rows, strict=True)}
        (full,) = struct.unpack_from("<Q", self._memory, _FULL_AT)
        return {"seconds": now - self._began, "kinds": kinds, "unseen": full + self._missed()}

    def groups(self) -> dict[int, tuple[int, int, float]]:
        """Of the calls at a limit, by the id of the task's memory cgroup: calls, pages, seconds on a core."""
        rows = ((key, *_GROUP.unpack(value)) for key, value in entries(self._object.maps["groups"], 8, _GROUP.size))
        return {int.from_bytes(key, "little"): (calls, pages, cpu_ns / 1e9) for key, calls, pages, cpu_ns in rows}


def _plain_passes(row: tuple[int, ...], boot: float) -> list[Any]:
    calls, fruitless, pages, ns, cpu_ns, longest, began, _, *buckets = row
    figures = [calls, fruitless, pages, ns / 1e9, min(cpu_ns, ns) / 1e9, longest / 1e9]
    return [*figures, _when(began, boot), _without_empty_end(buckets)]


_CORES, _VECTORS = 512, 10
_TIMES = struct.Struct(f"<{_BUCKETS + 2}Q")
_HEAD = struct.Struct(f"<II{_VECTORS}Q2Q")
_CORE_BYTES = _HEAD.size + 4 * _TIMES.size
_NETWORK = (2, 3)
_WAITING = struct.Struct("<QII")


class SoftirqLatency(_Window):
    def __init__(self, wall_clock: Callable[[], float], ksoftirqd: Mapping[int, int]) -> None:
        self._ksoftirqd = ksoftirqd
        programs = ("on_entry", "on_exit", "on_poll", "on_switch", "on_wakeup", "on_raise")
        super().__init__("softirq_latency.blob", _CORES * _CORE_BYTES, programs, wall_clock)

    def _prepare(self) -> None:
        for core, process in self._ksoftirqd.items():
            if core < _CORES:
                struct.pack_into("<I", self._memory, core * _CORE_BYTES, process)

    def read(self) -> dict[str, Any]:
        """Plain JSON: by core, the buckets of each kind, the longest, when it began, whether it is not over."""
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        boot = self._wall_clock() - now / 1e9
        threads = self._waiting_threads()
        rows = ((core, self._core(core * _CORE_BYTES, now, boot, threads.get(core, []))) for core in range(_CORES))
        return {"cores": {str(core): row for core, row in rows if row}, "missed": self._missed()}

    def _waiting_threads(self) -> dict[int, list[int]]:
        """Since when threads wait that poll the network, by core."""
        found: dict[int, list[int]] = {}
        for _, value in entries(self._object.maps["waiting"], 4, _WAITING.size):
            since, core, _ = _WAITING.unpack(value)
            found.setdefault(core, []).append(since)
        return found

    def _core(self, at: int, now: int, boot: float, threads: list[int]) -> dict[str, list[Any]] | None:
        head = _HEAD.unpack_from(self._memory, at)
        raised, waits_since = head[2 : 2 + _VECTORS], head[-1]
        kinds = CoreLatency._fields[1:]
        rows = [_TIMES.unpack_from(self._memory, at + _HEAD.size + i * _TIMES.size) for i in range(len(kinds))]
        pending = {
            "network": [*threads, *(stamp for vector, stamp in enumerate(raised) if stamp and vector in _NETWORK)],
            "others": [stamp for vector, stamp in enumerate(raised) if stamp and vector not in _NETWORK],
            "queue": [waits_since] if waits_since else [],
        }
        if not any(any(buckets) for *buckets, _, _ in rows) and not any(pending.values()):
            return None
        each = zip(kinds, rows, strict=True)
        return {kind: _plain_waits(row, pending.get(kind, []), now, boot) for kind, row in each}


def _plain_waits(row: tuple[int, ...], pending: list[int], now: int, boot: float) -> list[Any]:
    """A wait that is not over counts if it is the longest."""
    *buckets, longest, began = row
    oldest = min(pending, default=now)
    is_open = now - oldest > longest
    if is_open:
        longest, began = now - oldest, oldest
    return [_without_empty_end(buckets), longest / 1e9, _when(began, boot), is_open]


def _when(began: int, boot: float) -> float | None:
    return round(boot + began / 1e9, 6) if began else None


def _without_empty_end(buckets: list[int]) -> list[int]:
    while buckets and not buckets[-1]:
        buckets.pop()
    return buckets
