# SPDX-License-Identifier: Apache-2.0
"""Files in memory can be kept and their zombies freed all the same: a copy charged to the root cgroup takes the place
of each. The zombies go; the memory stays in use, and so does the file."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.facts.names import shown
from zombiescope.facts.remedies import Remedy
from zombiescope.remedies.plan import NamedFile, RewriteFiles, Risk, Undo
from zombiescope.remedies.situation import Draft, Situation, unused_by_folder

REMEDIES = (Remedy.DELETE_FILE,)


def propose(situation: Situation) -> Iterator[Draft]:
    for folder, levers in unused_by_folder(situation):
        yield Draft(
            f"rewrite:{shown(folder)}",
            f"rewrite {len(levers):,} file{'s' if len(levers) != 1 else ''} in {shown(folder)} in place, keeping what is in them",
            RewriteFiles(tuple(NamedFile(lever.target, lever.inode, lever.device) for lever in levers)),
            "memory of these files is charged to dead cgroups; a copy of each, charged to the root cgroup, which never dies, takes "
            "its place with the same content, owner, mode and times. The cost: room for one more copy at a time, a new inode "
            "number, and memory that no limit counts from then on. It stays in use: only the zombies go",
            "pinned-shared-memory",
            "zombiescope autopsy --by file",
            Risk.MEDIUM,
            Undo.EXACT,
            needs_consent=True,
            pulls=frozenset(levers),
            instead_of=(f"delete:{shown(folder)}",),
        )
