# SPDX-License-Identifier: Apache-2.0
"""Softirq latencies counted in the kernel for a bounded window (bpf/softirq_latency.bpf.c). It lives by descriptors alone: a killed
process leaves nothing behind."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Mapping
from typing import Any

from zombiescope.kernel.bpf_object import BpfObject, entries, parse_blob
from zombiescope.kernel.bpf_walk import packaged

_NAME = "softirq_latency.blob"
_CORES, _VECTORS, _BUCKETS = 512, 10, 32
_TIMES = struct.Struct(f"<{_BUCKETS + 2}Q")
_HEAD = struct.Struct(f"<II{_VECTORS}Q2Q")
_CORE_BYTES = _HEAD.size + 4 * _TIMES.size
_PROGRAMS = ("on_entry", "on_exit", "on_poll", "on_switch", "on_wakeup", "on_raise")
_KINDS = ("network", "others", "poll", "queue")
_NETWORK = (2, 3)
_WAITING = struct.Struct("<QII")


class SoftirqLatency:
    """Counts from when it is made. Raises BpfRefusedError where BPF is refused."""

    def __init__(self, wall_clock: Callable[[], float], ksoftirqd: Mapping[int, int]) -> None:
        self._wall_clock = wall_clock
        self._object = BpfObject(parse_blob(_NAME, packaged(_NAME)))
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
