# SPDX-License-Identifier: Apache-2.0
"""Live cgroups as directories: the children of one, and which of them has which inode. Any may be gone a moment later."""

from __future__ import annotations

import errno
from collections.abc import Iterable

from zombiescope.facts.cgroups import Hierarchy
from zombiescope.host.access import Host

GONE = (errno.ENOENT, errno.ENODEV)


def children_of(host: Host, hierarchy: Hierarchy, path: bytes) -> list[bytes]:
    """Paths of the live children; none of a cgroup that is gone. Any other refusal is raised."""
    prefix = b"" if path == b"/" else path
    try:
        return [prefix + b"/" + name for name in host.subdirectories(hierarchy.place(path))]
    except OSError as error:
        if error.errno in GONE:
            return []
        raise


def children_seen(host: Host, hierarchy: Hierarchy, path: bytes) -> list[bytes]:
    """The same where a refusal means no more than that there is nothing to see."""
    try:
        return children_of(host, hierarchy, path)
    except OSError:
        return []


def paths_by_inode(host: Host, hierarchy: Hierarchy, paths: Iterable[bytes]) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    for path in paths:
        try:
            inode = host.inode(hierarchy.place(path))
        except OSError:
            continue
        if inode is not None:
            found[inode] = path
    return found
