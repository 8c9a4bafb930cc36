# SPDX-License-Identifier: Apache-2.0
"""Who holds zombies where processes cannot be walked in the kernel, by what /proc and the sockets' own list tell."""

from __future__ import annotations

from collections.abc import Iterable

from zombiescope.analysis.held import is_unexplained
from zombiescope.facts.holders import Holder
from zombiescope.facts.page_free_pins import DeletedTask, DeletedTasks, PageFreePins, SocketCandidates
from zombiescope.facts.zombies import PinKind, Zombie


def holders_beside_pages(zombies: Iterable[Zombie], found: PageFreePins) -> list[Holder]:
    """Where processes cannot be walked in the kernel: a deleted task proves its zombie by former path, a socket by cgroup id.

    Several zombies may have had the same path; each takes as many of its tasks as it has references to explain.
    """
    tasks = found.tasks.tasks if isinstance(found.tasks, DeletedTasks) else ()
    sockets = found.sockets.dead if isinstance(found.sockets, SocketCandidates) else ()
    waiting: dict[bytes, list[DeletedTask]] = {}
    for task in tasks:
        if task.cgroup is not None:
            waiting.setdefault(task.cgroup, []).append(task)
    holders = []
    for zombie in filter(is_unexplained, zombies):
        mine = waiting.get(zombie.path, [])
        wanted = len(mine) if zombie.references.rest is None else zombie.references.rest
        for _ in range(min(wanted, len(mine))):
            task = mine.pop(0)
            holders.append(Holder(zombie.serial, PinKind.TASK, task.process, task.name, task.parent, 0, ""))
        for one in sockets:
            if one.cgroup == zombie.id:
                process = one.processes[0] if one.processes else 0
                holders.append(Holder(zombie.serial, PinKind.SOCKET, process, b"", 0, one.inode, one.protocol))
    return holders
