# SPDX-License-Identifier: Apache-2.0
"""Files in memory (tmpfs, /dev/shm) go only when they are deleted: by name, folder by folder, each with consent of its own. What is
still being written is left alone, whatever it holds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from zombiescope.analysis.freeing import COSTS, Action
from zombiescope.facts.names import shown
from zombiescope.remedies.choice import Lever, least_harm_first, may_be_deleted
from zombiescope.remedies.plan import KEPT_BYTES, KEPT_BYTES_IN_ALL, DeleteFiles, NamedFile, Risk, Undo
from zombiescope.remedies.situation import Draft, Situation

_MOST_FOLDERS = 20


def propose_delete_shared_files(situation: Situation) -> Iterator[Draft]:
    folders: dict[bytes, list[Lever]] = defaultdict(list)
    for lever in situation.choices.of(Action.DELETE_FILE):
        in_use = situation.still_written | situation.levers.files_in_use.keys()
        if may_be_deleted(lever.target) and lever.target not in in_use:
            folders[lever.target.rpartition(b"/")[0]].append(lever)
    for folder, levers in sorted(folders.items(), key=lambda item: (-len(item[1]), item[0]))[:_MOST_FOLDERS]:
        yield Draft(
            f"delete:{shown(folder)}",
            f"delete {len(levers):,} file{'s' if len(levers) != 1 else ''} in {shown(folder)}",
            DeleteFiles(tuple(NamedFile(*lever[1:]) for lever in sorted(levers, key=least_harm_first))),
            f"memory of these files is charged to dead cgroups; nothing but deleting frees it without swap. The cost: "
            f"{COSTS[Action.DELETE_FILE]}; copies of those up to {KEPT_BYTES >> 10} KiB are kept in the state folder, "
            f"{KEPT_BYTES_IN_ALL >> 20} MiB in all",
            "pinned-shared-memory",
            "zombiescope autopsy --by file",
            Risk.HIGH,
            Undo.NONE,
            needs_consent=True,
            pulls=frozenset(levers),
        )
