# SPDX-License-Identifier: Apache-2.0
"""Puts names to references that no page explains: the task, namespace or socket that was found to hold the zombie."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from zombiescope.facts.page_pins import DeletedTask, DeletedTasks, PageFreePins, SocketCandidates
from zombiescope.facts.zombies import HeldBy, Holder, Pin, PinKind, Zombie

_UNNAMED = (PinKind.OTHER, PinKind.SOCKET)


def is_unexplained(zombie: Zombie) -> bool:
    """It has references that nobody could name."""
    if zombie.references.rest == 0:
        return False
    return any(pin.kind in _UNNAMED and pin.holder is None and pin.inode is None for pin in zombie.pins)


def explain(zombies: Iterable[Zombie], holders: Iterable[Holder]) -> tuple[Zombie, ...]:
    by_serial: dict[int, list[Holder]] = {}
    for holder in holders:
        by_serial.setdefault(holder.serial, []).append(holder)
    return tuple(_explained(zombie, by_serial.get(zombie.serial, ())) for zombie in zombies)


def files_in_question(zombies: Iterable[Zombie]) -> dict[tuple[str, int], bytes]:
    """Files that somebody alive may have open or mapped, each with its last name: shared memory of any kind, and mapped cache."""
    found: dict[tuple[str, int], bytes] = {}
    for pin in (pin for zombie in zombies for pin in zombie.pins):
        if pin.device is None or pin.inode is None or not (_is_nameless(pin) or _may_be_used(pin)):
            continue
        name = pin.path if pin.path is not None else pin.path_in_fs or b""
        found[pin.device, pin.inode] = name.rpartition(b"/")[2]
    return found


def with_file_holders(zombies: Iterable[Zombie], holders: Mapping[tuple[str, int], HeldBy]) -> tuple[Zombie, ...]:
    def named(pin: Pin) -> Pin:
        is_asked = _is_nameless(pin) or _may_be_used(pin)
        who = holders.get((pin.device or "", pin.inode or 0)) if is_asked else None
        return pin._replace(holder=who) if who else pin

    return tuple(zombie._replace(pins=tuple(map(named, zombie.pins))) for zombie in zombies)


def _may_be_used(pin: Pin) -> bool:
    return pin.kind is PinKind.TMPFS or (pin.kind is PinKind.PAGE_CACHE and bool(pin.mapped))


def _is_nameless(pin: Pin) -> bool:
    return pin.kind in (PinKind.MEMFD, PinKind.SHARED_ANON) or (pin.kind is PinKind.TMPFS and pin.path is None)


def _explained(zombie: Zombie, holders: Iterable[Holder]) -> Zombie:
    """Holders stand for the nameless references; if there are fewer of them than references, something else holds it too."""
    found = [_pin(holder) for holder in holders]
    if not found or not is_unexplained(zombie):
        return zombie
    rest = zombie.references.rest
    is_all = rest is not None and len(found) >= rest
    kept = [pin for pin in zombie.pins if not (is_all and pin.kind in _UNNAMED and pin.inode is None)]
    return zombie._replace(pins=(*kept, *found))


def _pin(holder: Holder) -> Pin:
    who = HeldBy(
        holder.process or None,
        holder.name,
        reaper=holder.parent if holder.kind is PinKind.TASK else None,
        socket=holder.inode if holder.kind is PinKind.SOCKET else None,
        family=holder.family if holder.kind is PinKind.SOCKET else "",
    )
    return Pin(holder.kind, None, None, None, None, holder.inode or None, None, sampled=False, holder=who)


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
