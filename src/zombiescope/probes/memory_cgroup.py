# SPDX-License-Identifier: Apache-2.0
"""The memory cgroup of a process, from /proc/PID/cgroup: a line a hierarchy, `id:controllers:path`.

A path may hold anything but a newline, which no cgroup may have in its name, and is printed as it is; ` (deleted)` follows
where the directory is gone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from zombiescope.facts.cgroups import Hierarchy, HierarchyVersion

_DELETED = b" (deleted)"


class Membership(NamedTuple):
    path: bytes
    is_deleted: bool


def memory_cgroup(text: bytes, hierarchy: Hierarchy) -> Membership | None:
    """A live directory whose name ends in ` (deleted)` reads the same as a dead one: the caller asks whether it exists."""
    return unified_cgroup(text) if hierarchy.version is HierarchyVersion.V2 else _of(text, _is_memory)


def unified_cgroup(text: bytes) -> Membership | None:
    return _of(text, lambda number, controllers: number == b"0" and not controllers)


def _is_memory(number: bytes, controllers: bytes) -> bool:
    return number != b"0" and b"memory" in controllers.split(b",")


def _of(text: bytes, is_wanted: Callable[[bytes, bytes], bool]) -> Membership | None:
    for line in text.split(b"\n"):
        number, _, rest = line.partition(b":")
        controllers, separator, path = rest.partition(b":")
        if separator and path.startswith(b"/") and is_wanted(number, controllers):
            return Membership(path.removesuffix(_DELETED), path.endswith(_DELETED))
    return None
