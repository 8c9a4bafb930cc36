# SPDX-License-Identifier: Apache-2.0
"""Files dirty at death hold their cgroup through its writeback structure: write them, then let one cgroup die."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.facts.names import zombies_said
from zombiescope.facts.remedies import Remedy
from zombiescope.remedies.plan import Flush, Risk, Undo
from zombiescope.remedies.situation import Draft, Situation

REMEDIES = (Remedy.FLUSH,)


def propose(situation: Situation) -> Iterator[Draft]:
    wanted = situation.choices.of(Remedy.FLUSH)
    if wanted:
        yield Draft(
            "flush",
            "write all dirty files back, then let one new cgroup die",
            Flush(b"/"),
            f"{zombies_said(situation.choices.wanted[wanted[0]], 'are')} held by files that were not written back; the cost: "
            f"{Remedy.FLUSH.cost}",
            "pinned-writeback",
            "zombiescope autopsy --by pin",
            Risk.LOW,
            Undo.NONE,
            pulls=frozenset(wanted),
        )
