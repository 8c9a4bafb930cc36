# SPDX-License-Identifier: Apache-2.0
"""Done by hand: what no lever of ours removes goes with its process, with a reboot, or with another kernel. Printed, never done."""

import shlex
from collections.abc import Iterator

from zombiescope.facts.names import counted, share_said, shown, zombies_said
from zombiescope.facts.remedies import Remedy
from zombiescope.facts.zombies import PinKind
from zombiescope.remedies.choice import Draft, Situation, may_be_deleted
from zombiescope.remedies.plan import AskHuman, Risk, Undo

HELD_BY = {
    Remedy.REAP_PROCESS: "pinned-other",
    Remedy.RESTART_PROCESS: "pinned-shared-memory",
    Remedy.CLOSE_SOCKET: "pinned-other",
    Remedy.UNMOUNT: "pinned-other",
}
_NAMED = 5
_OF_PAGES = (PinKind.PAGE_CACHE, PinKind.TMPFS, PinKind.MEMFD, PinKind.SHARED_ANON, PinKind.SYSV_SHM, PinKind.ANON)


def end_holders(situation: Situation) -> Iterator[Draft]:
    """What processes hold (memfds, shared or moved memory, sockets, namespaces, unreaped children) goes with them."""
    for action, finding in HELD_BY.items():
        wanted = situation.choices.of(action)
        if not wanted:
            continue
        who = [shown(lever.target) for lever in wanted[:_NAMED]]
        more = f" and {len(wanted) - _NAMED} more" if len(wanted) > _NAMED else ""
        zombies = sum(situation.choices.wanted[lever] for lever in wanted)
        shows = (f"ps -o pid,ppid,unit,cmd -p {lever.process}" for lever in wanted[:_NAMED] if lever.process)
        yield Draft(
            action.value,
            f"{action.words}: {', '.join(who)}{more}",
            AskHuman(tuple(shows) or ("zombiescope autopsy --by pin",)),
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
            f"leave {counted(len(used), 'file')} alone: something may still write to them",
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


def drain_and_reboot(situation: Situation) -> Iterator[Draft]:
    """Where references hold zombies that nothing here can drop."""
    wanted = situation.choices.of(Remedy.REBOOT)
    if wanted:
        yield Draft(
            "reboot",
            "drain this node and reboot it, once the maker is stopped",
            AskHuman(("kubectl cordon NODE", "kubectl drain NODE --ignore-daemonsets", "systemctl reboot")),
            f"{zombies_said(situation.choices.wanted[wanted[0]], 'are')} held by references that nobody could name; unless the "
            "maker is stopped first they come back",
            "pinned-other",
            "zombiescope scan after the boot",
            Risk.HIGH,
            Undo.NONE,
        )


def newer_kernel(situation: Situation) -> Iterator[Draft]:
    """A kernel that hands a dead cgroup's pages to its parent, recognised by behaviour, never by its number. Moving to cgroup v2
    alone changes nothing: the pins are the same."""
    held = situation.choices.held
    if situation.levers.hands_pages_on or not held:
        return
    by_pages = sum(all(pin.kind in _OF_PAGES for pin in each.body.pins) for each in held)
    if 2 * by_pages >= len(held):
        yield Draft(
            "newer-kernel",
            "for the next image: a kernel that hands a dead cgroup's pages to its parent",
            AskHuman(("grep -c lru_reparent_memcg /proc/kallsyms   # 1 or more: it does",)),
            f"{share_said(by_pages, len(held), 'zombies')} are held by pages alone, which such a kernel (mainline 7.1) prevents; "
            "moving to cgroup v2 without it leaves the same pins",
            "zombie-population",
            "zombiescope doctor on a machine with that kernel",
            Risk.MEDIUM,
            Undo.NONE,
        )
