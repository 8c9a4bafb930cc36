# SPDX-License-Identifier: Apache-2.0
"""Cgroups born while we watch, by looking again and again: a new directory, or an old path with a new inode.

Needs no tracing and no root. What lives for less than a look is missed, so the counts are a lower bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from zombiescope.facts.cgroups import Hierarchy
from zombiescope.host.access import Host

_LOOK_SECONDS = 0.25


def read_cgroup_births(
    host: Host, hierarchy: Hierarchy, seconds: float, progress: Callable[[float], None] = lambda _: None
) -> Counter[bytes]:
    """Births by path."""
    births: Counter[bytes] = Counter()
    if not host.is_live or seconds <= 0:
        return births
    start = host.monotonic()
    known = _look(host, hierarchy)
    pause = max(_LOOK_SECONDS, 10 * (host.monotonic() - start))
    while (over := host.monotonic() - start) < seconds:
        progress(over)
        host.wait(min(pause, seconds - over))
        seen = _look(host, hierarchy)
        births.update(path for path, inode in seen.items() if known.get(path) != inode)
        known.update(seen)
    progress(seconds)
    return births


def _look(host: Host, hierarchy: Hierarchy) -> dict[bytes, int]:
    found: dict[bytes, int] = {}
    for path in host.directories(hierarchy.place(b"/")).paths:
        try:
            inode = host.inode(hierarchy.place(path))
        except OSError:
            continue
        if inode is not None:
            found[path] = inode
    return found
