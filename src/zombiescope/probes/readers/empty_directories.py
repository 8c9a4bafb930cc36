# SPDX-License-Identifier: Apache-2.0
"""Live leaf cgroups without a process: a few are ordinary, thousands are directories that somebody never removed.

Only looked at where there are many leaves, and then in an even sample. v1: cgroup.procs; v2: cgroup.events, which needs no list.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence

from zombiescope.facts.cgroups import EmptyDirectories, Hierarchy, HierarchyVersion
from zombiescope.facts.gap import Gap
from zombiescope.host.access import Host
from zombiescope.probes.kernel_text import flat_keyed, refusal

MOST_SEEN = 400
EXAMPLES = 3
_FACT = "visible_leak.empty_directories"


def read_empty_directories(host: Host, hierarchy: Hierarchy, leaves: Sequence[bytes]) -> EmptyDirectories | Gap:
    step = max(-(-len(leaves) // MOST_SEEN), 1)
    sample = leaves[::step]
    seen = 0
    empty: list[bytes] = []
    for path in sample:
        try:
            is_empty = _is_empty(host, hierarchy, path)
        except OSError as error:
            if error.errno == errno.ENODEV or (error.errno == errno.ENOENT and host.is_live):
                continue
            return refusal(_FACT, error.filename or hierarchy.place(path), error)
        seen += 1
        if is_empty:
            empty.append(path)
    if leaves and not seen:
        return Gap(_FACT, "every cgroup that was looked at went away meanwhile", "look again")
    return EmptyDirectories(len(leaves), seen, len(empty), tuple(empty[:: max(len(empty) // EXAMPLES, 1)][:EXAMPLES]))


def _is_empty(host: Host, hierarchy: Hierarchy, path: bytes) -> bool:
    if hierarchy.version is HierarchyVersion.V2 and path != b"/":
        populated = flat_keyed(host.read(hierarchy.place(path, b"cgroup.events"))).get(b"populated")
        if populated is not None:
            return populated == 0
    return not host.read(hierarchy.place(path, b"cgroup.procs")).strip()
