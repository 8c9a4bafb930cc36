# SPDX-License-Identifier: Apache-2.0
"""What one statistics sweep costs here: the files that kubelet reads of every cgroup, read once and timed.

Bounded: the root and the top level are always read, for they are dear where a read walks the descendants (kernels before 5.9);
of the rest an even sample, scaled up. Stops when its time is used up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from zombiescope.facts.cgroups import Hierarchy, HierarchyVersion, Sweep
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.host.access import Host

MOST_CGROUPS = 200
MOST_SECONDS = 2.0
_FACT = "cost.sweep_seconds"
_FILES = {HierarchyVersion.V1: (b"memory.stat", b"memory.numa_stat"), HierarchyVersion.V2: (b"memory.stat",)}


def read_stat_sweep(host: Host, hierarchy: Hierarchy, live: Sequence[bytes]) -> Sweep | Gap:
    """`live` is every live cgroup, the root among them."""
    outcome = host.experiment("stat_sweep", lambda: _sweep(host, hierarchy, live))
    if outcome is None:
        return Gap(_FACT, "a recording cannot be timed", "scan the live host")
    if not outcome["cgroups_read"]:
        return Gap(_FACT, "no memory.stat could be read")
    return Sweep(**outcome)


def _sweep(host: Host, hierarchy: Hierarchy, live: Sequence[bytes]) -> dict[str, Any]:
    top = [path for path in live if path.count(b"/") <= 1][:MOST_CGROUPS]
    chosen = set(top)
    rest = [path for path in live if path not in chosen]
    step = max(-(-len(rest) // max(MOST_CGROUPS - len(top), 1)), 1)
    timer = _Timer(host, hierarchy)
    top_seconds = timer.time_all(top)
    read_of_top = timer.cgroups_read
    rest_seconds = timer.time_all(rest[::step])
    read_of_rest = timer.cgroups_read - read_of_top
    scaled = rest_seconds * len(rest) / read_of_rest if read_of_rest else 0.0
    return {
        "seconds": top_seconds + scaled,
        "cgroups": len(live),
        "cgroups_read": timer.cgroups_read,
        "slowest_file": shown(timer.slowest_file),
        "slowest_seconds": timer.slowest_seconds,
    }


class _Timer:
    def __init__(self, host: Host, hierarchy: Hierarchy) -> None:
        self._host = host
        self._hierarchy = hierarchy
        self._end = host.monotonic() + MOST_SECONDS
        self.cgroups_read = 0
        self.slowest_file = b""
        self.slowest_seconds = 0.0

    def time_all(self, paths: Sequence[bytes]) -> float:
        start = now = self._host.monotonic()
        for path in paths:
            for name in _FILES[self._hierarchy.version]:
                before, now = now, self._read(self._hierarchy.place(path, name))
                if now - before > self.slowest_seconds:
                    self.slowest_file, self.slowest_seconds = self._hierarchy.place(path, name), now - before
            self.cgroups_read += 1
            if now > self._end:
                break
        return now - start

    def _read(self, file: bytes) -> float:
        try:
            self._host.read(file)
        except OSError:  # vanished meanwhile, or a file this kernel does not have: kubelet pays for the attempt too
            return self._host.monotonic()
        return self._host.monotonic()
