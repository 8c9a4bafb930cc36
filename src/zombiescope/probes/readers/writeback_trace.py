# SPDX-License-Identifier: Apache-2.0
"""Files that dead cgroups wrote and that are not on disk yet: the tell-tale of writeback structures, from memory.stat.

The structures themselves are seen by no file. Zombies with nothing dirty and no residual at all may be held by one all the same:
kernels let go of it only some time after its last file is clean.
"""

from __future__ import annotations

from collections.abc import Iterable

from zombiescope.facts.cgroups import Hierarchy, HierarchyVersion
from zombiescope.facts.gap import Gap
from zombiescope.facts.page_pins import DirtyResidual, WritebackTrace
from zombiescope.host.access import Host
from zombiescope.probes.cgroups import children_seen
from zombiescope.probes.kernel_text import flat_keyed

_FACT = "zombies[].pins"
_V1 = (b"dirty", b"writeback")
_V2 = (b"file_dirty", b"file_writeback")


def read_writeback_trace(host: Host, hierarchy: Hierarchy, parents: Iterable[bytes]) -> WritebackTrace | Gap:
    """`parents` are live cgroups with zombies or bytes below them that no live one owns."""
    found: dict[bytes, DirtyResidual] = {}
    unread: list[bytes] = []
    asked = 0
    for path in parents:
        asked += 1
        residual = _residual(host, hierarchy, path)
        if residual is None:
            unread.append(path)
        elif any(residual):
            found[path] = residual
    if asked and len(unread) == asked:
        return Gap(_FACT, "memory.stat does not say what is dirty", "this kernel may count it nowhere")
    gaps = (Gap(_FACT, f"memory.stat of {len(unread)} parents does not say what is dirty"),) if unread else ()
    return WritebackTrace(found, gaps)


def _residual(host: Host, hierarchy: Hierarchy, path: bytes) -> DirtyResidual | None:
    is_v1 = hierarchy.version is HierarchyVersion.V1
    above = _figures(host, hierarchy, path, _V1 if is_v1 else _V2, b"total_" if is_v1 else b"")
    own = _figures(host, hierarchy, path, _V1, b"") if is_v1 else (0, 0)
    if above is None or own is None:
        return None
    dirty, writeback = above[0] - own[0], above[1] - own[1]
    for child in children_seen(host, hierarchy, path) if dirty or writeback else ():
        below = _figures(host, hierarchy, child, _V1 if is_v1 else _V2, b"total_" if is_v1 else b"")
        if below is not None:
            dirty, writeback = dirty - below[0], writeback - below[1]
    return DirtyResidual(max(dirty, 0), max(writeback, 0))


def _figures(
    host: Host, hierarchy: Hierarchy, path: bytes, names: tuple[bytes, bytes], prefix: bytes
) -> tuple[int, int] | None:
    try:
        values = flat_keyed(host.read(hierarchy.place(path, b"memory.stat")))
    except OSError:
        return None
    dirty, writeback = (values.get(prefix + name) for name in names)
    return None if dirty is None or writeback is None else (dirty, writeback)
