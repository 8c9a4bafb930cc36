# SPDX-License-Identifier: Apache-2.0
"""From pins to what would remove them, least harm first; and what people try first that frees none of them, or makes more.

This is the decision kernel developers sketched in 2023, from user space: clean unmapped file pages are dropped, mapped ones
are left to reclaim or to their mapper, shared memory goes with its file or its holder, swap is walked apart.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from zombiescope.facts.names import shown
from zombiescope.facts.remedies import LEVERS, Remedy
from zombiescope.facts.zombies import Pin, PinKind, Zombie

_HOST = "host"
_HARM = {action: number for number, action in enumerate(LEVERS)}


class Aimed(NamedTuple):
    action: Remedy
    target: str
    together: bool = False
    """It takes all remedies of the zombie that are so marked."""


def remedies_of(zombie: Zombie, pins: Iterable[Pin]) -> tuple[Aimed, ...]:
    """Each alone is enough to free the zombie, least harm first; or, marked so, all of them together.

    `pins` are its own and, in the place of a dead child, the child's.
    """
    choices = [
        {(action, _target(action, pin, zombie.parent)) for action in actions}
        for pin in pins
        for actions in needs_of(pin)
    ]
    if not choices:
        return (Aimed(Remedy.WAIT, shown(zombie.path)),)
    common = set(choices[0]).intersection(*choices[1:])
    if common:
        return tuple(sorted((Aimed(*choice) for choice in common), key=_least_harm))
    if any(choice == {(Remedy.REBOOT, _HOST)} for choice in choices):
        return (Aimed(Remedy.REBOOT, _HOST),)
    return _together(choices)


def remedies_on(pin: Pin, parent: bytes) -> tuple[Aimed, ...]:
    """What removes one pin of zombies below a live parent, where the zombies themselves could not be seen."""
    needs = needs_of(pin)
    choices = (Aimed(action, _target(action, pin, parent), len(needs) > 1) for actions in needs for action in actions)
    return tuple(sorted(choices, key=_least_harm))


class Ways(NamedTuple):
    alone: frozenset[Remedy] = frozenset()
    """Each of them, given all its targets, removes every pin."""
    together: tuple[Remedy, ...] = ()
    """Where no action alone does: all of these, least harm first."""


def ways_out(needs: Sequence[frozenset[Remedy]]) -> Ways:
    """What frees a zombie whose pins need one action of each set (`needs_of`): the totals' view of `remedies_of`."""
    if not needs:
        return Ways(frozenset({Remedy.WAIT}))
    alone = needs[0].intersection(*needs[1:])
    if alone:
        return Ways(alone)
    if frozenset({Remedy.REBOOT}) in needs:
        return Ways(frozenset({Remedy.REBOOT}))
    chosen: set[Remedy] = set()
    for actions in sorted(needs, key=len):
        if not chosen & actions:
            chosen.add(min(actions, key=_HARM.__getitem__))
    return Ways(together=tuple(sorted(chosen, key=_HARM.__getitem__)))


def actions_on(pin: Pin) -> frozenset[Remedy]:
    """What removes this pin, every page of it."""
    if pin.kind is PinKind.PAGE_CACHE:
        return _on_page_cache(pin)
    if pin.kind is PinKind.TMPFS and pin.path is None:
        return _RESTART  # unlinked, or in a mount we do not see: whoever has it open
    if is_in_swap_cache(pin):
        return _RECLAIM  # swapped in, it would be a page of its file again, and still the zombie's
    return _ACTIONS[pin.kind]


def needs_of(pin: Pin) -> tuple[frozenset[Remedy], ...]:
    """One action of each set: a file in memory with a name and a live user stays until both have let go."""
    if pin.kind is PinKind.TMPFS and pin.path is not None and pin.holder is not None:
        return _RESTART, actions_on(pin)
    return (actions_on(pin),)


def is_in_swap_cache(pin: Pin) -> bool:
    """Pages that were swapped out and are still in memory; a mere swap entry has no page that anybody could map."""
    return pin.kind is PinKind.SWAP and pin.mapped is not None


_RECLAIM = frozenset({Remedy.RECLAIM_PARENT})
_RECLAIM_OR_DROP = _RECLAIM | {Remedy.DROP_FILE}
_RESTART = frozenset({Remedy.RESTART_PROCESS})
_ACTIONS: Mapping[PinKind, frozenset[Remedy]] = {
    PinKind.WRITEBACK: frozenset({Remedy.FLUSH}),
    PinKind.TMPFS: frozenset({Remedy.DELETE_FILE}),
    PinKind.MEMFD: _RESTART,
    PinKind.SHARED_ANON: _RESTART,
    PinKind.SYSV_SHM: frozenset({Remedy.REMOVE_SEGMENT}),
    PinKind.ANON: _RESTART,
    PinKind.SWAP: frozenset({Remedy.SWAP_IN}),
    PinKind.SOCKET: frozenset({Remedy.CLOSE_SOCKET, Remedy.RESTART_PROCESS}),
    PinKind.CHILD: frozenset({Remedy.WAIT}),
    PinKind.TASK: frozenset({Remedy.REAP_PROCESS}),
    PinKind.NAMESPACE: frozenset({Remedy.UNMOUNT, Remedy.RESTART_PROCESS}),
    PinKind.UNEVICTABLE: _RESTART,
    PinKind.OTHER: frozenset({Remedy.REBOOT}),
}


def _on_page_cache(pin: Pin) -> frozenset[Remedy]:
    """Dropping a file's cache skips mapped and dirty pages, and cannot be promised where not every page was seen."""
    cannot_drop = pin.path is None or pin.sampled or pin.mapped or pin.dirty
    return _RECLAIM if cannot_drop else _RECLAIM_OR_DROP


def _target(action: Remedy, pin: Pin, parent: bytes) -> str:
    match action:
        case Remedy.RECLAIM_PARENT:
            return shown(parent)
        case Remedy.REBOOT:
            return _HOST
        case Remedy.SWAP_IN:
            return "all swap"
        case Remedy.FLUSH:
            return "all file systems"
        case Remedy.REMOVE_SEGMENT:
            return f"shmid {pin.inode}"  # the inode of a SysV segment is its id
        case Remedy.DROP_FILE | Remedy.DELETE_FILE if pin.path is not None:
            return shown(pin.path)  # whoever has it open as well
        case _:
            return (pin.holder.said if pin.holder else shown(pin.name or b"")) or f"the holder of its {pin.kind} memory"


def _together(choices: list[set[tuple[Remedy, str]]]) -> tuple[Aimed, ...]:
    """One remedy a pin; an action that serves several pins is taken once."""
    chosen: set[tuple[Remedy, str]] = set()
    for choice in sorted(choices, key=len):
        if not chosen & choice:
            chosen.add(min(choice, key=lambda option: (_HARM[option[0]], option[1])))
    return tuple(sorted((Aimed(*option, together=True) for option in chosen), key=_least_harm))


def _least_harm(remedy: Aimed) -> tuple[int, str]:
    return _HARM[remedy.action], remedy.target


def least_harm_first(counts: Mapping[Remedy, int]) -> dict[Remedy, int]:
    return dict(sorted(counts.items(), key=lambda item: _HARM[item[0]]))


def cost_of(actions: Iterable[Remedy]) -> str:
    return "; and ".join(action.cost for action in actions)


class Useless(NamedTuple):
    action: str
    """An action's name, or `drop_caches`, which is none of ours."""
    zombies: int
    why: str


class CacheState(NamedTuple):
    """Of a zombie's page cache: what keeps dropping from working."""

    mapped: bool
    dirty: bool


AT_REST = CacheState(mapped=False, dirty=False)
_SHARED = frozenset({PinKind.TMPFS, PinKind.MEMFD, PinKind.SHARED_ANON, PinKind.SYSV_SHM})
_PAGELESS = frozenset({PinKind.WRITEBACK, PinKind.SOCKET, PinKind.TASK, PinKind.NAMESPACE})
_WORSE = (
    "worse: without swap it frees nothing, with swap it fills the swap, and what is paged out before its cgroup dies makes "
    "zombies that neither reclaim nor drop_caches frees"
)
_BY_KIND = (
    ("drop_caches", _SHARED, "shared memory is no cache: it goes with its file, its segment or its holder"),
    ("reclaim_parent", _SHARED, _WORSE),
    ("drop_caches", frozenset({PinKind.ANON, PinKind.UNEVICTABLE}), "memory of a process is no cache"),
    ("drop_caches", frozenset({PinKind.SWAP}), "what is in swap is no cache"),
    ("reclaim_parent", frozenset({PinKind.SWAP}), "worse: it is in swap already, and paging out more makes more of these"),
    ("drop_caches", _PAGELESS, "no page holds them"),
    ("reclaim_parent", _PAGELESS, "no page holds them"),
)  # fmt: skip
_MAPPED = ("drop_caches", "it skips pages that a process maps; reclaim can take them")
_DIRTY = ("drop_caches", "it skips pages that are not written yet: sync first")


def state_of(pins: Iterable[Pin]) -> CacheState:
    cached = [pin for pin in pins if pin.kind is PinKind.PAGE_CACHE]
    return CacheState(any(pin.mapped for pin in cached), any(pin.dirty for pin in cached)) if cached else AT_REST


def derive_useless(counts: Mapping[tuple[tuple[PinKind, ...], CacheState], int]) -> tuple[Useless, ...]:
    """By kinds of pins and the state of page cache, how many zombies; most zombies first."""
    found: dict[tuple[str, str], int] = {}
    for (kinds, state), number in counts.items():
        rules = [(action, why) for action, of, why in _BY_KIND if not of.isdisjoint(kinds)]
        rules += [_MAPPED] * state.mapped + [_DIRTY] * state.dirty
        for rule in rules:
            found[rule] = found.get(rule, 0) + number
    rows = [Useless(action, number, why) for (action, why), number in found.items()]
    return tuple(sorted(rows, key=lambda row: (-row.zombies, row.action, row.why)))
