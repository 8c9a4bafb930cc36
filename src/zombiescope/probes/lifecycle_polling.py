# SPDX-License-Identifier: Apache-2.0
"""Births and deaths by looking again and again: a new directory, an old path with a new inode, one that is gone.

The last resort: what lives and dies between two looks is not seen, and no file tells of a release.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import Counts, Dead, EventTier, Flow, Lifecycle
from zombiescope.host.access import Host

_LOWER_BOUND = Gap(
    "births",
    "directories are only looked at from time to time: what lives for less than a look is missed",
    "run as root",
)
_UNCOUNTED = Gap("lost", "nothing counts what lives for less than a look", "run as root")
_NO_RELEASES = Gap(
    "releases", "no file tells when a dead cgroup is released", "run as root, or with CAP_BPF and CAP_PERFMON"
)


class PollingLedger:
    tier = EventTier.POLLING

    def __init__(self, host: Host, hierarchy: Hierarchy, why: tuple[Gap, ...]) -> None:
        self._host, self._hierarchy = host, hierarchy
        self.refused = why
        self._gaps = (*why, _LOWER_BOUND, _UNCOUNTED, _NO_RELEASES)
        self._known = self._look()
        self._total = Counts()

    def read(self) -> Lifecycle:
        at = self._host.wall_clock()
        seen = self._look()
        born = {path for path, inode in seen.items() if self._known.get(path) != inode}
        died = {path for path, inode in self._known.items() if seen.get(path) != inode}
        flows = tuple(Flow(path, Counts(path in born, path in died, 0)) for path in sorted(born | died))
        self._known = seen
        self._total = self._total.plus(Counts(len(born), len(died), 0))
        return Lifecycle(EventTier.POLLING, at, self._total, flows, Counts(), None, gaps=self._gaps)

    def moved(self) -> None:
        """Not without a look."""

    def catch_up(self) -> float:
        return float("inf")

    def dead(self) -> Iterator[Dead]:
        return iter(())

    def close(self) -> None:
        """Nothing is held."""

    def _look(self) -> dict[bytes, int | None]:
        found: dict[bytes, int | None] = {}
        try:
            paths = self._host.directories(self._hierarchy.mount_point).paths
        except OSError:
            return self._known if hasattr(self, "_known") else found
        for path in paths:
            try:
                found[path] = self._host.inode(self._hierarchy.place(path))
            except OSError:
                continue
        return found
