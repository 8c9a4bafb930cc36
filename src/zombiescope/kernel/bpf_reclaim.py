# SPDX-License-Identifier: Apache-2.0
"""Reclaim timed in the kernel, call by call, for a window (bpf/reclaim_passes.bpf.c). It lives by descriptors alone."""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable
from typing import Any

from zombiescope.kernel.bpf_object import BpfObject, entries, packaged, parse_blob

_NAME = "reclaim_passes.blob"
_BUCKETS = 32
_KIND = struct.Struct(f"<{8 + _BUCKETS}Q")
_KINDS = ("direct", "limit")
_GROUP = struct.Struct("<3Q")
# Ends first: what is seen to begin is also seen to end.
_PROGRAMS = ("on_direct_end", "on_limit_end", "on_direct_begin", "on_limit_begin")


class ReclaimPasses:
    """Counts from when it is made. Raises BpfRefusedError where BPF is refused."""

    def __init__(self, wall_clock: Callable[[], float]) -> None:
        self._wall_clock = wall_clock
        self._began = time.clock_gettime(time.CLOCK_MONOTONIC)
        self._object = BpfObject(parse_blob(_NAME, packaged(_NAME)))
        self._links: list[int] = []
        try:
            self._memory = self._object.map_memory("bss", len(_KINDS) * _KIND.size + 8)
            self._links.extend(self._object.attach(name) for name in _PROGRAMS)
        except BaseException:
            self.close()
            raise

    def read(self) -> dict[str, Any]:
        """Plain JSON: seconds of the window, and by kind calls, fruitless, pages, seconds, on a core, longest, when, buckets."""
        now = time.clock_gettime(time.CLOCK_MONOTONIC)
        boot = self._wall_clock() - now
        kinds = {name: _plain(_KIND.unpack_from(self._memory, i * _KIND.size), boot) for i, name in enumerate(_KINDS)}
        (full,) = struct.unpack_from("<Q", self._memory, len(_KINDS) * _KIND.size)
        missed = sum(self._object.missed_runs(name) for name in _PROGRAMS)
        return {"seconds": now - self._began, "kinds": kinds, "unseen": full + missed}

    def groups(self) -> dict[int, tuple[int, int, float]]:
        """Of the calls at a limit, by the id of the task's memory cgroup: calls, pages, seconds on a core."""
        found = {}
        for key, value in entries(self._object.map_descriptor("groups"), 8, _GROUP.size):
            calls, pages, cpu_ns = _GROUP.unpack(value)
            found[int.from_bytes(key, "little")] = (calls, pages, cpu_ns / 1e9)
        return found

    def close(self) -> None:
        for link in self._links:
            os.close(link)
        self._links = []
        self._object.close()


def _plain(row: tuple[int, ...], boot: float) -> list[Any]:
    calls, fruitless, pages, ns, cpu_ns, longest, began, _, *buckets = row
    while buckets and not buckets[-1]:
        buckets.pop()
    when = round(boot + began / 1e9, 6) if began else None
    return [calls, fruitless, pages, ns / 1e9, min(cpu_ns, ns) / 1e9, longest / 1e9, when, buckets]
