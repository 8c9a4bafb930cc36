# SPDX-License-Identifier: Apache-2.0
"""How long the tasks of single cgroups waited for memory, CPU and disk (memory.pressure, cpu.pressure, io.pressure): v2 alone."""

from __future__ import annotations

from collections.abc import Iterable

from zombiescope.facts.cgroups import Hierarchy, HierarchyVersion
from zombiescope.facts.gap import Gap
from zombiescope.facts.pressure import NO_GROUPS, Stalls
from zombiescope.host.access import Host
from zombiescope.probes.kernel_text import refusal, stall_totals

_FILES = ("memory", "cpu", "io")
_ON_V1 = Gap(NO_GROUPS.fact, "cgroup v1 keeps no pressure by cgroup", "the machine's own: /proc/pressure")


def read_group_stalls(host: Host, hierarchy: Hierarchy | Gap, paths: Iterable[bytes]) -> dict[bytes, Stalls] | Gap:
    """By path; a cgroup that is gone is left out. A gap where none could be read, but not where none was asked for."""
    if isinstance(hierarchy, Gap):
        return hierarchy.about(NO_GROUPS.fact)
    if hierarchy.version is HierarchyVersion.V1:
        return _ON_V1
    found: dict[bytes, Stalls] = {}
    gap: Gap | None = None
    for path in paths:
        stalls: dict[str, float] = {}
        for name in _FILES:
            file = hierarchy.place(path, name.encode() + b".pressure")
            try:
                totals = stall_totals(host.read(file))
            except OSError as error:
                gap = gap or refusal(NO_GROUPS.fact, file, error)
                continue
            stalls |= {f"{name}.{kind}": seconds for kind, seconds in totals.items()}
        if stalls:
            found[path] = stalls
    return gap if gap and not found else found
