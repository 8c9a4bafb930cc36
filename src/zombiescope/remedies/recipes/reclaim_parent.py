# SPDX-License-Identifier: Apache-2.0
"""Reclaim at the nearest live parent of zombies: v2's memory.reclaim, memory.high where that is missing, v1's force_empty with
consent, and the node's file for v1's root. Live siblings lose cache too."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.analysis.freeing import COSTS, Action
from zombiescope.facts.names import shown, zombies_said
from zombiescope.remedies.plan import Reclaim, ReclaimWay, Risk, Undo
from zombiescope.remedies.reclaiming import reclaim_file
from zombiescope.remedies.situation import Draft, Situation

_PAGE_BYTES = 4096
_CONSENT = {ReclaimWay.FORCE_EMPTY, ReclaimWay.MEMORY_HIGH, ReclaimWay.NODE}
_RISKS = {
    ReclaimWay.MEMORY_RECLAIM: "in batches, watching memory pressure",
    ReclaimWay.MEMORY_HIGH: "every process below is slowed down until the limit is put back, seconds later",
    ReclaimWay.FORCE_EMPTY: "all cache below goes, and live memory may be swapped out; in a child with a time limit",
    ReclaimWay.NODE: "the whole host loses cache, in batches",
}


def propose_reclaim_parent(situation: Situation) -> Iterator[Draft]:
    hierarchy = situation.levers.hierarchy
    for lever in situation.choices.of(Action.RECLAIM_PARENT):
        found = reclaim_file(situation.levers, hierarchy, lever.target) if hierarchy else None
        if found is None:
            continue
        way, files = found
        yield Draft(
            f"reclaim:{shown(lever.target)}",
            f"reclaim below {shown(lever.target)} ({way})",
            Reclaim(lever.target, way, files, situation.choices.pages[lever] * _PAGE_BYTES),
            f"{zombies_said(situation.choices.wanted[lever], 'hold')} cached pages that no named file gives up; the cost: "
            f"{COSTS[Action.RECLAIM_PARENT]}; {_RISKS[way]}",
            "pinned-page-cache",
            "zombiescope scan",
            Risk.MEDIUM if way is ReclaimWay.MEMORY_RECLAIM else Risk.HIGH,
            Undo.NONE,
            needs_consent=way in _CONSENT,
            pulls=frozenset({lever}),
        )
