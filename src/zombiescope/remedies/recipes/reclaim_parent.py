# SPDX-License-Identifier: Apache-2.0
"""Reclaim at the nearest live parent of zombies: v2's memory.reclaim, memory.high where that is missing, v1's force_empty with
consent, and the node's file for v1's root. Live siblings lose cache too."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.facts.names import shown, zombies_said
from zombiescope.facts.remedies import Remedy
from zombiescope.remedies.plan import Reclaim, ReclaimWay, Risk, Undo
from zombiescope.remedies.situation import Draft, Situation, reclaim_file

REMEDIES = (Remedy.RECLAIM_PARENT,)

_CONSENT = {ReclaimWay.FORCE_EMPTY, ReclaimWay.MEMORY_HIGH, ReclaimWay.NODE}
_RISKS = {
    ReclaimWay.MEMORY_RECLAIM: "in batches, watching memory pressure",
    ReclaimWay.MEMORY_HIGH: "every process below is slowed down until the limit is put back, seconds later",
    ReclaimWay.FORCE_EMPTY: "all cache below goes, and live memory may be swapped out; in a child with a time limit",
    ReclaimWay.NODE: "the whole host loses cache, in batches",
}


def propose(situation: Situation) -> Iterator[Draft]:
    hierarchy = situation.levers.hierarchy
    for lever in situation.choices.of(Remedy.RECLAIM_PARENT):
        found = reclaim_file(situation.levers, hierarchy, lever.target) if hierarchy else None
        if found is None:
            continue
        way, files = found
        swapped = situation.choices.in_swap_cache(lever)
        size = situation.choices.pages[lever] + swapped
        yield Draft(
            f"reclaim:{shown(lever.target)}",
            f"reclaim below {shown(lever.target)} ({way})",
            Reclaim(lever.target, way, files, size * situation.page_bytes, swapped > 0),
            f"{_why(situation.choices.wanted[lever], swapped)}; the cost: {Remedy.RECLAIM_PARENT.cost}; {_RISKS[way]}",
            "pinned-page-cache" if swapped < situation.choices.wanted[lever] else "pinned-swap",
            "zombiescope scan",
            Risk.MEDIUM if way is ReclaimWay.MEMORY_RECLAIM and not swapped else Risk.HIGH,
            Undo.NONE,
            needs_consent=way in _CONSENT or swapped > 0,
            pulls=frozenset({lever}),
        )


def _why(wanted: int, swapped: int) -> str:
    """Swapped in before they have left memory, pages stay the dead one's: that step comes after this one."""
    cached = f"{zombies_said(wanted - swapped, 'hold')} cached pages that no named file gives up"
    if not swapped:
        return cached
    kept = (
        f"{zombies_said(swapped, 'hold')} pages that were swapped out and are still in memory, which swapping in would leave "
        "theirs; live memory below may be swapped out with them"
    )
    return kept if swapped == wanted else f"{cached}; {kept}"
