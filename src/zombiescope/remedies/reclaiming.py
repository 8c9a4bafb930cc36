# SPDX-License-Identifier: Apache-2.0
"""Which file reclaims below a parent, the gentlest that is there."""

from __future__ import annotations

from zombiescope.facts.cgroups import Hierarchy, HierarchyVersion
from zombiescope.facts.levers import Levers
from zombiescope.remedies.plan import ReclaimWay

_OF_A_CGROUP = (ReclaimWay.MEMORY_RECLAIM, ReclaimWay.MEMORY_HIGH, ReclaimWay.FORCE_EMPTY)


def reclaim_file(levers: Levers, hierarchy: Hierarchy, parent: bytes) -> tuple[ReclaimWay, tuple[bytes, ...]] | None:
    """The root of v1 has none of its own: the nodes' files serve it, where they are."""
    if hierarchy.version is HierarchyVersion.V1 and parent == b"/":
        return (ReclaimWay.NODE, levers.node_reclaim) if levers.node_reclaim else None
    for way in _OF_A_CGROUP:
        place = hierarchy.place(parent, way.value.encode())
        if place in levers.control_files:
            return way, (place,)
    return None
