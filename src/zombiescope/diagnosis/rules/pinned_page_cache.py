# SPDX-License-Identifier: Apache-2.0
"""Zombies held by page cache: files on a disk that the dead read or wrote first. Their cache can be dropped, the files stay."""

from __future__ import annotations

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Finding
from zombiescope.diagnosis.pins import PinRule, judge_pins

RULE = PinRule(
    "pinned-page-cache",
    "Page cache holds the dead",
    frozenset({"page_cache"}),
    "cached file pages",
    "reclaim-parent",
)
ID = RULE.id


def judge_pinned_page_cache(case: Case) -> Finding:
    return judge_pins(case, RULE)
