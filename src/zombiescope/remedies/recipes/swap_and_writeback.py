# SPDX-License-Identifier: Apache-2.0
"""Memory that is on its way to a disk holds zombies: files that were dirty at death, and pages in swap."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.facts.names import zombies_said
from zombiescope.facts.remedies import Remedy
from zombiescope.remedies.choice import Draft, Situation
from zombiescope.remedies.plan import Flush, Risk, SwapIn, Undo

_ROOM = 2.0
"""Available memory must be this many times what is in swap."""


def flush_writeback(situation: Situation) -> Iterator[Draft]:
    """Files dirty at death hold their cgroup through its writeback structure: write them, then let one cgroup die."""
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


def swap_in(situation: Situation) -> Iterator[Draft]:
    """Swap entries made before a cgroup died keep it: swap is switched off and on, where memory has room for all that is in it."""
    wanted = situation.choices.of(Remedy.SWAP_IN)
    levers = situation.levers
    used = sum(area.used_bytes for area in levers.swaps)
    if not wanted or not levers.swaps or levers.available_bytes is None or levers.available_bytes < _ROOM * used:
        return
    yield Draft(
        "swap-in",
        "bring everything back from swap (swapoff, then swapon)",
        SwapIn(tuple(area.device for area in levers.swaps)),
        f"{zombies_said(situation.choices.wanted[wanted[0]], 'are')} held by swap entries made while they lived; the cost: "
        f"{Remedy.SWAP_IN.cost}",
        "pinned-swap",
        "cat /proc/swaps",
        Risk.HIGH,
        Undo.EXACT,
        needs_consent=True,
        pulls=frozenset(wanted),
    )
