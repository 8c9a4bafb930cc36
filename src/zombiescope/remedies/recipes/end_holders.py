# SPDX-License-Identifier: Apache-2.0
"""What processes hold (memfds, shared or moved memory, sockets, namespaces, unreaped children) goes with them: people decide."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from zombiescope.facts.names import counted, shown, zombies_said
from zombiescope.facts.remedies import Remedy
from zombiescope.remedies.choice import may_be_deleted
from zombiescope.remedies.plan import AskHuman, Risk, Undo
from zombiescope.remedies.situation import Draft, Situation

_HELD_BY = {
    Remedy.REAP_PROCESS: "pinned-other",
    Remedy.RESTART_PROCESS: "pinned-shared-memory",
    Remedy.CLOSE_SOCKET: "pinned-other",
    Remedy.UNMOUNT: "pinned-other",
}
REMEDIES = tuple(_HELD_BY)
_NAMED = 5


def propose(situation: Situation) -> Iterator[Draft]:
    for action, finding in _HELD_BY.items():
        wanted = situation.choices.of(action)
        if not wanted:
            continue
        who = [shown(lever.target) for lever in wanted[:_NAMED]]
        more = f" and {len(wanted) - _NAMED} more" if len(wanted) > _NAMED else ""
        zombies = sum(situation.choices.wanted[lever] for lever in wanted)
        pids = [lever.process for lever in wanted[:_NAMED] if lever.process]
        commands = tuple(f"ps -o pid,ppid,unit,cmd -p {pid}" for pid in pids) or ("zombiescope autopsy --by pin",)
        yield Draft(
            action.value,
            f"{action.words}: {', '.join(who)}{more}",
            AskHuman(commands),
            f"{zombies_said(zombies, 'are')} held by them; the cost: {action.cost}",
            finding,
            "zombiescope autopsy --by pin",
            Risk.MEDIUM,
            Undo.NONE,
        )
    files = situation.choices.of(Remedy.DELETE_FILE)
    unlisted = situation.still_written - situation.levers.files_in_use.keys()  # those have a step of their own
    used = [lever for lever in files if lever.target in unlisted and may_be_deleted(lever.target)]
    if used:
        yield Draft(
            "leave-files",
            f"leave {len(used):,} file{'s' if len(used) != 1 else ''} alone: something may still write to them",
            AskHuman(tuple(f"fuser -v {shlex.quote(shown(lever.target))}" for lever in used[:_NAMED])),
            "they hold zombies born while we looked, so something may still write to them: stop the writer, then plan again",
            "pinned-shared-memory",
            "zombiescope autopsy --by file",
            Risk.MEDIUM,
            Undo.NONE,
        )
    kept = [lever for lever in files if not may_be_deleted(lever.target)]
    if kept:
        yield Draft(
            "look-at-files",
            f"look at {counted(len(kept), 'file')} of running programs that hold zombies",
            AskHuman(tuple(f"ls -l {shown(lever.target)}" for lever in kept[:_NAMED])),
            "they belong to programs that keep their state there: restarting the program is the way, not deleting",
            "pinned-shared-memory",
            "zombiescope autopsy --by file",
            Risk.MEDIUM,
            Undo.NONE,
        )
