# SPDX-License-Identifier: Apache-2.0
"""Names the memory cgroups whose tasks reclaimed at a limit, and those above them that have a limit at all.

The kernel gives ids, which are the inodes of directories. One that is gone by now is left out: its calls stay in the sum.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.names import shown
from zombiescope.host.access import Host

_LIMITS = (b"memory.max", b"memory.high", b"memory.limit_in_bytes")
_UNLIMITED_BYTES = 1 << 62
"""v1 writes the largest number of whole pages where there is none."""


def named_groups(host: Host, hierarchy: Hierarchy, groups: Mapping[int, tuple[int, int, float]]) -> list[list[Any]]:
    """Plain JSON: path, the limited ones at and above it, calls, pages, seconds on a core; the dearest first."""
    if not groups:
        return []
    paths = _paths(host, hierarchy, set(groups))
    limited: dict[bytes, bool] = {}
    rows = []
    for number, (calls, pages, seconds) in sorted(groups.items(), key=lambda each: -each[1][2]):
        path = paths.get(number)
        if path is None:
            continue
        above = [place for place in _at_and_above(path) if _is_limited(host, hierarchy, place, limited)]
        rows.append([shown(path), [shown(place) for place in above], calls, pages, seconds])
    return rows


def _paths(host: Host, hierarchy: Hierarchy, wanted: set[int]) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    try:
        paths = host.directories(hierarchy.place(b"/")).paths
    except OSError:
        return found
    for path in paths:
        try:
            inode = host.inode(hierarchy.place(path))
        except OSError:
            continue
        if inode in wanted:
            found[inode] = path
            if len(found) == len(wanted):
                break
    return found


def _at_and_above(path: bytes) -> list[bytes]:
    """Without the root, which has no limit."""
    parts = path.strip(b"/").split(b"/") if path != b"/" else []
    return [b"/" + b"/".join(parts[:depth]) for depth in range(len(parts), 0, -1)]


def _is_limited(host: Host, hierarchy: Hierarchy, path: bytes, known: dict[bytes, bool]) -> bool:
    if path not in known:
        known[path] = any(_limit(host, hierarchy.place(path, name)) for name in _LIMITS)
    return known[path]


def _limit(host: Host, file: bytes) -> bool:
    try:
        text = host.read(file).strip()
    except OSError:
        return False
    return text.isdigit() and int(text) < _UNLIMITED_BYTES
