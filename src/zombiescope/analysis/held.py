# SPDX-License-Identifier: Apache-2.0
"""What holds zombies, where their pages do not tell: the task, namespace or socket found to hold one, and shared and private memory
of lists that were too long to follow, told apart by what memory.stat counts below their parent."""

from collections import Counter
from collections.abc import Iterable, Mapping

from zombiescope.analysis.autopsy import Body
from zombiescope.analysis.freeing import least_harm_first
from zombiescope.facts.cgroups import MemoryUse, Residuals
from zombiescope.facts.names import shown
from zombiescope.facts.page_pins import DeletedTask, DeletedTasks, PageFreePins, SocketCandidates
from zombiescope.facts.remedies import Remedy
from zombiescope.facts.zombies import HeldBy, Holder, MakerRemains, Pin, PinExample, PinKind, Remains, Walk, Zombie

_MOST_MAKERS, _MOST_PARENTS, _MOST_PLACES, _EXAMPLES_A_KIND = 50, 5, 500, 3


def derive_remains(bodies: tuple[Body, ...], tier: str, at: float, since: float | None = None) -> Remains:
    """`since`: when the window began."""
    heaps: dict[str, list[Body]] = {}
    for body in bodies:
        heaps.setdefault(body.maker, []).append(body)
    ranked = sorted(heaps.items(), key=lambda each: (-len(each[1]), each[0]))
    makers = tuple(_of_maker(maker, heap) for maker, heap in ranked[:_MOST_MAKERS])
    by_pin, actions = _pins_of(bodies), _actions_of(bodies)
    return Remains(
        at,
        tier,
        len(bodies),
        makers,
        by_pin,
        actions,
        _examples_of(bodies),
        _parents(bodies, _MOST_PLACES),
        _lately(bodies, since),
    )


def _parents(bodies: Iterable[Body], most: int) -> dict[str, int]:
    return dict(Counter(shown(body.zombie.parent) for body in bodies).most_common(most))


def _lately(bodies: Iterable[Body], since: float | None) -> dict[str, int]:
    if since is None:
        return {}
    born = (body.maker for body in bodies if body.zombie.born_at is not None and body.zombie.born_at >= since)
    return dict(Counter(born).most_common(_MOST_MAKERS))


def _of_maker(maker: str, heap: list[Body]) -> MakerRemains:
    births = [body.zombie.born_at for body in heap if body.zombie.born_at is not None]
    return MakerRemains(
        maker,
        len(heap),
        _pins_of(heap),
        min(births, default=None),
        max(births, default=None),
        _parents(heap, _MOST_PARENTS),
    )


def _pins_of(bodies: Iterable[Body]) -> dict[str, int]:
    """Of a zombie that only waits for its dead child, the child's pins: the child itself is no reason."""
    kinds: Counter[str] = Counter()
    for body in bodies:
        alone = PinKind.CHILD if body.pins else PinKind.OTHER
        kinds.update({pin.kind.value for pin in body.pins if pin.kind is not PinKind.CHILD} or {alone.value})
    return dict(kinds.most_common())


def _actions_of(bodies: Iterable[Body]) -> dict[str, dict[str, int]]:
    """The first remedy of each zombie, under each kind that it has."""
    found: dict[str, Counter[Remedy]] = {}
    for body in bodies:
        for kind in {pin.kind.value for pin in body.pins}:
            found.setdefault(kind, Counter())[body.remedies[0].action] += 1
    return {kind: {action.key: n for action, n in least_harm_first(each).items()} for kind, each in found.items()}


def _examples_of(bodies: Iterable[Body]) -> tuple[PinExample, ...]:
    found: dict[str, list[PinExample]] = {}
    for body in bodies:
        for pin in body.pins:
            kept = found.setdefault(pin.kind.value, [])
            name = _name_of(pin)
            if len(kept) < _EXAMPLES_A_KIND and name and name not in {each.name for each in kept}:
                kept.append(PinExample(pin.kind.value, body.maker, name))
    return tuple(example for kind in sorted(found) for example in found[kind])


def _name_of(pin: Pin) -> str:
    if pin.kind is PinKind.SYSV_SHM:
        return f"shmid {pin.inode}"
    return shown(pin.name) if pin.name is not None else (pin.holder.said if pin.holder else "")


_UNNAMED = (PinKind.OTHER, PinKind.SOCKET)


def is_unexplained(zombie: Zombie) -> bool:
    """It has references that nobody could name."""
    return zombie.references.rest != 0 and any(
        pin.kind in _UNNAMED and pin.holder is None and pin.inode is None for pin in zombie.pins
    )


def explain(zombies: Iterable[Zombie], holders: Iterable[Holder]) -> tuple[Zombie, ...]:
    by_serial: dict[int, list[Holder]] = {}
    for holder in holders:
        by_serial.setdefault(holder.serial, []).append(holder)
    return tuple(_explained(zombie, by_serial.get(zombie.serial, ())) for zombie in zombies)


def files_in_question(zombies: Iterable[Zombie]) -> dict[tuple[str, int], bytes]:
    """Files that somebody alive may have open or mapped, each with its last name: shared memory of any kind, and mapped cache."""
    asked = (pin for zombie in zombies for pin in zombie.pins if _is_nameless(pin) or _may_be_used(pin))
    return {
        (pin.device, pin.inode): (pin.name or b"").rpartition(b"/")[2]
        for pin in asked
        if pin.device is not None and pin.inode is not None
    }


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


def split_by_residual(walk: Walk, residuals: Residuals) -> Walk:
    """Only where that leaves no doubt: the parent's zombies have but one of the two, or only one zombie is in question and both
    figures add up to its pages. Otherwise they stay untold."""
    in_question = {zombie.parent for zombie in walk.zombies if zombie.unsplit_pages}
    if not in_question:
        return walk
    split: dict[int, Zombie] = {}
    for parent in in_question - residuals.unsplit - residuals.garbled:
        family = [zombie for zombie in walk.zombies if zombie.parent == parent]
        split |= {zombie.serial: zombie for zombie in _split(family, residuals.by_parent.get(parent), walk.page_bytes)}
    zombies = tuple(split.get(zombie.serial, zombie) for zombie in walk.zombies)
    is_all = not any(zombie.unsplit_pages for zombie in zombies)
    answered = ("zombies[].pages.shmem", "zombies[].pages.anon") if is_all else ()
    return walk._replace(zombies=zombies, gaps=tuple(gap for gap in walk.gaps if gap.fact not in answered))


def _split(family: list[Zombie], use: MemoryUse | None, page_bytes: int) -> Iterable[Zombie]:
    if use is None:
        return []
    untold = [zombie for zombie in family if zombie.unsplit_pages]
    shmem = use.shmem // page_bytes - sum(zombie.pages.shmem or 0 for zombie in family)
    anon = use.anon // page_bytes - sum(zombie.pages.anon or 0 for zombie in family)
    if shmem + anon != sum(zombie.unsplit_pages for zombie in untold):
        return []
    if anon == 0:
        return [_told(zombie, zombie.unsplit_pages, 0) for zombie in untold]
    if shmem == 0:
        return [_told(zombie, 0, zombie.unsplit_pages) for zombie in untold]
    return [_told(untold[0], shmem, anon)] if len(untold) == 1 and min(shmem, anon) > 0 else []


def _told(zombie: Zombie, shmem: int, anon: int) -> Zombie:
    return zombie._replace(pages=zombie.pages._replace(shmem=shmem, anon=anon), unsplit_pages=0)
