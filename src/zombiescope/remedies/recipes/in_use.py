# SPDX-License-Identifier: Apache-2.0
"""Shared memory that a live program has open, mapped or attached is not deleted: people decide what becomes of the program."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.facts.names import shown
from zombiescope.facts.remedies import Remedy
from zombiescope.facts.zombies import HeldBy
from zombiescope.remedies.choice import Lever, may_be_deleted
from zombiescope.remedies.plan import AskHuman, Risk, Undo
from zombiescope.remedies.situation import Draft, Situation

REMEDIES = (Remedy.DELETE_FILE, Remedy.REMOVE_SEGMENT)

_NAMED = 5


def propose(situation: Situation) -> Iterator[Draft]:
    holders = situation.levers.files_in_use
    files = [
        lever
        for lever in situation.choices.of(Remedy.DELETE_FILE)
        if lever.target in holders and may_be_deleted(lever.target)
    ]
    if files:
        yield _files(files, list(dict.fromkeys(holders[lever.target] for lever in files)))
    attached = situation.levers.segments
    segments = [lever for lever in situation.choices.of(Remedy.REMOVE_SEGMENT) if attached.get(lever.inode or 0, 0)]
    if segments:
        yield Draft(
            "segments-in-use",
            f"look at {_count(segments, 'SysV segment')} that processes have attached",
            AskHuman(("ipcs -m -p",)),
            "what is in them is in use; they can be removed when the processes have let go of them",
            "pinned-shared-memory",
            "ipcs -m",
            Risk.MEDIUM,
            Undo.NONE,
        )


def _files(files: list[Lever], holders: list[HeldBy]) -> Draft:
    more = f" and {len(holders) - _NAMED:,} more" if len(holders) > _NAMED else ""
    first = holders[:_NAMED]
    who = ", ".join(holder.said for holder in first)
    return Draft(
        "files-in-use",
        f"look at {_count(files, 'file')} that live programs have open or mapped: {who}{more}",
        AskHuman(tuple(f"ps -o pid,ppid,unit,cmd -p {holder.process}" for holder in first if holder.process)),
        f"such as {shown(files[0].target)}: when the program has ended or let go of it, apply deletes it",
        "pinned-shared-memory",
        "zombiescope autopsy --by file",
        Risk.MEDIUM,
        Undo.NONE,
    )


def _count(levers: list[Lever], what: str) -> str:
    return f"{len(levers):,} {what}{'s' if len(levers) != 1 else ''}"
