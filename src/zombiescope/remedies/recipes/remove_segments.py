# SPDX-License-Identifier: Apache-2.0
"""SysV segments outlive their makers: removed by id, with consent, where no process is attached."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.facts.remedies import Remedy
from zombiescope.remedies.plan import RemoveSegments, Risk, Undo
from zombiescope.remedies.situation import Draft, Situation

REMEDIES = (Remedy.REMOVE_SEGMENT,)


def propose(situation: Situation) -> Iterator[Draft]:
    attached = situation.levers.segments
    wanted = [
        lever
        for lever in situation.choices.of(Remedy.REMOVE_SEGMENT)
        if lever.inode is not None and attached.get(lever.inode) == 0  # one that is not listed is another namespace's
    ]
    if wanted:
        yield Draft(
            "remove-segments",
            f"remove {len(wanted):,} SysV segment{'s' if len(wanted) != 1 else ''} that no process has attached",
            RemoveSegments(tuple(sorted(lever.inode for lever in wanted if lever.inode is not None))),
            f"segments of dead cgroups; the cost: {Remedy.REMOVE_SEGMENT.cost}",
            "pinned-shared-memory",
            "ipcs -m",
            Risk.HIGH,
            Undo.NONE,
            needs_consent=True,
            pulls=frozenset(wanted),
        )
