# SPDX-License-Identifier: Apache-2.0
"""Cached pages of named files, clean and mapped by nobody: the least that frees a zombie. The files stay as they are."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.facts.remedies import Remedy
from zombiescope.remedies.plan import DropFiles, NamedFile, Risk, Undo
from zombiescope.remedies.situation import Draft, Situation

REMEDIES = (Remedy.DROP_FILE,)


def propose(situation: Situation) -> Iterator[Draft]:
    wanted = situation.choices.of(Remedy.DROP_FILE)
    if wanted:
        yield Draft(
            "drop-files",
            f"drop the cached pages of {len(wanted):,} file{'s' if len(wanted) != 1 else ''}",
            DropFiles(tuple(NamedFile(lever.target, lever.inode, lever.device) for lever in wanted)),
            f"zombies are held by cached pages that nobody maps; the cost: {Remedy.DROP_FILE.cost}",
            "pinned-page-cache",
            "zombiescope autopsy --by file",
            Risk.LOW,
            Undo.NONE,
            pulls=frozenset(wanted),
        )
