# SPDX-License-Identifier: Apache-2.0
"""Page cache charged at and below a live cgroup that can be asked to reclaim (v2, memory.reclaim, 5.19)."""

from __future__ import annotations

from zombiescope.facts.cgroups import Hierarchy, HierarchyVersion
from zombiescope.host.access import Host
from zombiescope.probes.kernel_text import flat_keyed


def read_reclaimable_cache(host: Host, hierarchy: Hierarchy, path: bytes) -> int | None:
    """Bytes; None where the cgroup cannot be asked, or does not tell."""
    if hierarchy.version is HierarchyVersion.V1:
        return None
    try:
        host.inode(hierarchy.place(path, b"memory.reclaim"))
        values = flat_keyed(host.read(hierarchy.place(path, b"memory.stat")))
    except OSError:
        return None
    file, shmem = values.get(b"file"), values.get(b"shmem")
    return None if file is None or shmem is None else max(file - shmem, 0)
