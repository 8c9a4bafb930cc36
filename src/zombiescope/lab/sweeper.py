# SPDX-License-Identifier: Apache-2.0
"""Reads every live cgroup's statistics below a cgroup of ours, as kubelet does, and says how long a sweep took."""

from __future__ import annotations

import time
from typing import NamedTuple

from zombiescope.lab.hierarchy import MemoryHierarchy

_FILES = ("memory.stat", "memory.usage_in_bytes", "memory.current", "cgroup.procs")


class Swept(NamedTuple):
    cgroups: int
    seconds: float


def sweep(hierarchy: MemoryHierarchy, top: str) -> Swept:
    began, cgroups = time.monotonic(), 0
    for path in hierarchy.deepest_first(top):
        cgroups += 1
        for name in _FILES:
            try:
                with open(hierarchy.file(path, name), "rb") as file:
                    file.read()
            except OSError:
                continue
    return Swept(cgroups, time.monotonic() - began)
