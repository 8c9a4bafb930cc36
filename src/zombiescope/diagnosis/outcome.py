# SPDX-License-Identifier: Apache-2.0
"""Did it hold? Judged by what the plan was about: its zombies and its makers' restarts. Other numbers are shown, not judged: the
host does other things meanwhile."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from zombiescope.facts.pressure import Vitals

LEAST_SECONDS = 10.0
"""An ordinary death is over within a second, and a maker that loops is restarted within ten by the usual settings."""
_NOISE = 2
"""One ordinary death on its way at each end of the window."""
_NOISE_SHARE = 0.05
"""Of those that were left: counts are read one after another on a host at work, and a twentieth is less than any lever frees."""


class Held(StrEnum):
    HELD = "held"
    NOT_HELD = "not-held"
    INCONCLUSIVE = "inconclusive"


class Outcome(NamedTuple):
    verdict: Held
    why: str


def judge_outcome(before: Vitals, after: Vitals, steps_done: int) -> Outcome:
    if not steps_done:
        return Outcome(Held.INCONCLUSIVE, "nothing was done, so there is nothing to hold")
    if after.restarts:
        return Outcome(Held.NOT_HELD, f"the maker was restarted {after.restarts} times in the window")
    if after.ours is None or after.ours_first is None:
        return Outcome(Held.INCONCLUSIVE, "the zombies of the plan could not be counted")
    grown = after.ours - after.ours_first
    if grown > max(_NOISE, _NOISE_SHARE * after.ours_first):
        return Outcome(Held.NOT_HELD, f"{grown:,} new zombies in {after.seconds:.0f} s")
    if before.ours is not None and after.ours > max(before.ours, _NOISE):
        return Outcome(Held.NOT_HELD, f"{after.ours:,} zombies, more than the {before.ours:,} before")
    if after.seconds < LEAST_SECONDS:
        return Outcome(
            Held.INCONCLUSIVE, f"{after.seconds:.0f} s are too short to tell: at least {LEAST_SECONDS:.0f} s"
        )
    was = "?" if before.ours is None else f"{before.ours:,}"
    return Outcome(Held.HELD, f"{was} zombies before, {after.ours:,} now, none more in {after.seconds:.0f} s")
