# SPDX-License-Identifier: Apache-2.0
"""Zombies whose pages are in swap: out of reach of reclaim until they are brought back in."""

from __future__ import annotations

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Finding
from zombiescope.diagnosis.pins import PinRule, judge_pins

RULE = PinRule(
    "pinned-swap",
    "Swap holds the dead",
    frozenset({"swap"}),
    "pages in swap",
    "swap-in",
)
ID = RULE.id


def judge_pinned_swap(case: Case) -> Finding:
    return judge_pins(case, RULE)
