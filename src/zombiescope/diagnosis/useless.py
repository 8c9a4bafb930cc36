# SPDX-License-Identifier: Apache-2.0
"""What is often tried first and is known not to help here, with the reason. Only what fits the findings is named."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

_ZOMBIES = frozenset({"zombie-population"})
_WALKS = frozenset({"costly-sweep", "costly-reclaim-walk"})
"""Where the time was seen to go into cgroups: a core that is held, or a card that is reset, may be so for another reason."""
_LOOPS = frozenset({"crash-looping-unit", "looping-container", "image-risk"})
_NOT_CACHE = frozenset({"pinned-shared-memory", "pinned-swap"})


class Useless(NamedTuple):
    what: str
    why: str


_KNOWN: tuple[tuple[frozenset[str], frozenset[str], Useless], ...] = (
    (_ZOMBIES, _ZOMBIES, Useless("cgdelete", "a zombie has no directory any more: there is nothing left to delete")),
    (
        _ZOMBIES,
        _ZOMBIES,
        Useless("remounting the cgroup file systems", "a charge in the kernel holds the zombie, not the mount"),
    ),
    (
        _ZOMBIES,
        _NOT_CACHE,
        Useless("drop_caches", "it drops clean file pages alone: shared memory and swap stay, and so do their zombies"),
    ),
    (
        _ZOMBIES,
        frozenset({"pinned-shared-memory"}),
        Useless(
            "reclaim (memory.reclaim, memory.high, force_empty)",
            "of shared memory it frees nothing without swap, and with swap only moves it there: it fills the swap, and what is "
            "paged out before its cgroup dies makes zombies that no reclaim frees",
        ),
    ),
    (
        _ZOMBIES,
        _WALKS,
        Useless("huge pages", "the time goes into walking cgroups, not pages: a zombie costs the same with large ones"),
    ),
    (
        _ZOMBIES,
        _WALKS,
        Useless("another allocator", "what the dead hold is cache and shared memory, which no allocator manages"),
    ),
    (
        _ZOMBIES,
        _WALKS,
        Useless(
            "CPU affinity", "the walk runs on whichever core asks, and softirqs follow the network card, not the job"
        ),
    ),
    (
        _ZOMBIES | {"image-risk"},
        _LOOPS,
        Useless("adding nodes", "a node from the same image starts the same loop: it is only younger"),
    ),
    (
        frozenset({"cpu-throttling"}),
        frozenset({"cpu-throttling"}),
        Useless("freeing memory against throttling", "cpu.max throttles by its own clock: reclaim does not cause it"),
    ),
)


def useless_of(present: Iterable[str]) -> tuple[Useless, ...]:
    """Those of which one of each set of findings is there."""
    names = frozenset(present)
    return tuple(advice for one, other, advice in _KNOWN if one & names and other & names)
