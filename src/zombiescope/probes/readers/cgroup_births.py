# SPDX-License-Identifier: Apache-2.0
"""Cgroups born while we watch, by looking again and again: a new directory, or an old path with a new inode.

Needs no tracing and no root. What lives for less than a look is missed, so the counts are a lower bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.gap import Gap
from zombiescope.host.access import Host
from zombiescope.probes.kernel_text import refusal

_LOOK_SECONDS = 0.25


def watch_births(host: Host, hierarchy: Hierarchy) -> BirthsWatch | Gap:
    """A gap where the cgroups cannot be listed: then nothing is watched."""
    try:
        return BirthsWatch(host, hierarchy)
    except OSError as error:
        return refusal("units[].births", hierarchy.place(b"/"), error)


class BirthsWatch:
    """`look` often; `births` by path so far."""

    def __init__(self, host: Host, hierarchy: Hierarchy) -> None:
        self._host, self._hierarchy = host, hierarchy
        self.births: Counter[bytes] = Counter()
        self._quickest = float("inf")
        self._known = self._seen()
        self._next = host.monotonic()

    @property
    def pause(self) -> float:
        """Between two looks: a large tree is looked at less often. The quickest look tells how large it is: any one of them may
        have waited for its turn on a busy machine."""
        return max(_LOOK_SECONDS, 10 * self._quickest)

    def _seen(self) -> dict[bytes, int]:
        start = self._host.monotonic()
        seen = _look(self._host, self._hierarchy)
        self._quickest = min(self._quickest, self._host.monotonic() - start)
        return seen

    def look(self) -> None:
        try:
            seen = self._seen()
        except OSError:
            return  # unmounted while we watch: what was seen before counts
        self.births.update(path for path, inode in seen.items() if self._known.get(path) != inode)
        self._known.update(seen)

    def look_if_due(self) -> None:
        if self._host.monotonic() >= self._next:
            self.look()
            self._next = self._host.monotonic() + self.pause


def read_cgroup_births(
    host: Host, hierarchy: Hierarchy, seconds: float, progress: Callable[[float], None] = lambda _: None
) -> Counter[bytes] | Gap:
    """Births by path."""
    if not host.is_live or seconds <= 0:
        return Counter()
    start = host.monotonic()
    watch = watch_births(host, hierarchy)
    if isinstance(watch, Gap):
        return watch
    while (over := host.monotonic() - start) < seconds:
        progress(over)
        host.wait(min(watch.pause, seconds - over))
        watch.look()
    progress(seconds)
    return watch.births


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
