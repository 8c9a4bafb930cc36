# SPDX-License-Identifier: Apache-2.0
"""The last resort, by name and never first: the whole host's clean cache, where cached pages hold zombies that no other lever
of this host reaches."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.facts.names import zombies_said
from zombiescope.facts.remedies import Remedy
from zombiescope.remedies.choice import Lever
from zombiescope.remedies.plan import DropCaches, Risk, Undo
from zombiescope.remedies.situation import Draft, Situation, reclaim_file

REMEDIES = (Remedy.RECLAIM_PARENT,)


def propose(situation: Situation) -> Iterator[Draft]:
    unreached = [lever for lever in situation.choices.of(Remedy.RECLAIM_PARENT) if not _is_reached(situation, lever)]
    if unreached:
        zombies = sum(situation.choices.wanted[lever] for lever in unreached)
        yield Draft(
            "drop-caches",
            "last resort: drop every clean cached page of the host",
            DropCaches(),
            f"{zombies_said(zombies, 'hold')} cached pages below parents that have no reclaim file; every program reads its files "
            "anew, and mapped and dirty pages stay",
            "pinned-page-cache",
            "zombiescope scan",
            Risk.HIGH,
            Undo.NONE,
            needs_consent=True,
            pulls=frozenset(unreached),
        )


def _is_reached(situation: Situation, lever: Lever) -> bool:
    """What a recording does not tell counts as reached: all caches of a host are no remedy for a gap."""
    hierarchy = situation.levers.hierarchy
    if lever.target in situation.levers.untold:
        return True
    return hierarchy is not None and reclaim_file(situation.levers, hierarchy, lever.target) is not None
