# SPDX-License-Identifier: Apache-2.0
"""What people try first and what does not free the zombies at hand, or makes more of them; with the reason, and how many."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from zombiescope.facts.zombies import Pin, PinKind


class Useless(NamedTuple):
    action: str
    """An action's name, or `drop_caches`, which is none of ours."""
    zombies: int
    why: str


class State(NamedTuple):
    """Of a zombie's page cache: what keeps dropping from working."""

    mapped: bool
    dirty: bool


AT_REST = State(mapped=False, dirty=False)
_SHARED = frozenset({PinKind.TMPFS, PinKind.MEMFD, PinKind.SHARED_ANON, PinKind.SYSV_SHM})
_PRIVATE = frozenset({PinKind.ANON, PinKind.UNEVICTABLE})
_PAGELESS = frozenset({PinKind.WRITEBACK, PinKind.SOCKET, PinKind.TASK, PinKind.NAMESPACE})
_WORSE = (
    "worse: without swap it frees nothing, with swap it fills the swap, and what is paged out before its cgroup dies makes "
    "zombies that neither reclaim nor drop_caches frees"
)
_BY_KIND = (
    ("drop_caches", _SHARED, "shared memory is no cache: it goes with its file, its segment or its holder"),
    ("reclaim_parent", _SHARED, _WORSE),
    ("drop_caches", _PRIVATE, "memory of a process is no cache"),
    ("drop_caches", frozenset({PinKind.SWAP}), "what is in swap is no cache"),
    ("reclaim_parent", frozenset({PinKind.SWAP}), "worse: it is in swap already, and paging out more makes more of these"),
    ("drop_caches", _PAGELESS, "no page holds them"),
    ("reclaim_parent", _PAGELESS, "no page holds them"),
)  # fmt: skip
_MAPPED = ("drop_caches", "it skips pages that a process maps; reclaim can take them")
_DIRTY = ("drop_caches", "it skips pages that are not written yet: sync first")


def state_of(pins: Iterable[Pin]) -> State:
    cached = [pin for pin in pins if pin.kind is PinKind.PAGE_CACHE]
    return State(any(pin.mapped for pin in cached), any(pin.dirty for pin in cached)) if cached else AT_REST


def derive_useless(counts: Mapping[tuple[tuple[PinKind, ...], State], int]) -> tuple[Useless, ...]:
    """By kinds of pins and the state of page cache, how many zombies; most zombies first."""
    found: dict[tuple[str, str], int] = {}
    for (kinds, state), number in counts.items():
        rules = [(action, why) for action, of, why in _BY_KIND if not of.isdisjoint(kinds)]
        rules += [_MAPPED] * state.mapped + [_DIRTY] * state.dirty
        for rule in rules:
            found[rule] = found.get(rule, 0) + number
    rows = [Useless(action, number, why) for (action, why), number in found.items()]
    return tuple(sorted(rows, key=lambda row: (-row.zombies, row.action, row.why)))
