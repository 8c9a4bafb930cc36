# SPDX-License-Identifier: Apache-2.0
"""Zombies whose pages are in swap: out of reach of reclaim until they are brought back in."""

from __future__ import annotations

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Finding, Role
from zombiescope.diagnosis.stock import judge_pins
from zombiescope.facts.remedies import Remedy

FINDING = Declaration(
    id="pinned-swap",
    title="Swap holds the dead",
    role=Role.MECHANISM,
    explained_by=("crash-looping-unit", "looping-container", "zombie-growth"),
    remedies=(Remedy.SWAP_IN, Remedy.RECLAIM_PARENT),
    pins=frozenset({"swap"}),
    held_by="pages in swap",
    thing="zombies held by swap",
    link="pages in swap keep the dead cgroups",
    what="The zombies' memory is in swap.",
    matters="Reclaim works on memory, not on swap, so it never reaches them.",
    do="Bring the memory back from swap (swapoff, then swapon) when twice as much memory is free.",
    judged_by=("pin_share",),
    next="zombiescope plan",
    proven_by="swap",
)


def judge(case: Case) -> Finding:
    return judge_pins(case, FINDING)
