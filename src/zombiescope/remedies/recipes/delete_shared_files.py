# SPDX-License-Identifier: Apache-2.0
"""Files in memory (tmpfs, /dev/shm) go only when they are deleted: by name, folder by folder, each with consent of its own. What is
still being written is left alone, whatever it holds."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.facts.names import shown
from zombiescope.facts.remedies import Remedy
from zombiescope.remedies.plan import KEPT_BYTES, KEPT_BYTES_IN_ALL, DeleteFiles, NamedFile, Risk, Undo
from zombiescope.remedies.situation import Draft, Situation, unused_by_folder

REMEDIES = (Remedy.DELETE_FILE,)


def propose(situation: Situation) -> Iterator[Draft]:
    for folder, levers in unused_by_folder(situation):
        yield Draft(
            f"delete:{shown(folder)}",
            f"delete {len(levers):,} file{'s' if len(levers) != 1 else ''} in {shown(folder)}",
            DeleteFiles(tuple(NamedFile(lever.target, lever.inode, lever.device) for lever in levers)),
            f"memory of these files is charged to dead cgroups; reclaim frees none of it without swap, and with swap only moves it "
            f"there. The cost: "
            f"{Remedy.DELETE_FILE.cost}; copies of those up to {KEPT_BYTES >> 10} KiB are kept in the state folder, "
            f"{KEPT_BYTES_IN_ALL >> 20} MiB in all",
            "pinned-shared-memory",
            "zombiescope autopsy --by file",
            Risk.HIGH,
            Undo.NONE,
            needs_consent=True,
            pulls=frozenset(levers),
        )
