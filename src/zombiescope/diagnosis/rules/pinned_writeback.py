# SPDX-License-Identifier: Apache-2.0
"""Zombies held by writeback: files dirty at death keep a writeback structure, and that keeps the cgroup until it is switched."""

from __future__ import annotations

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Finding
from zombiescope.diagnosis.pins import PinRule, judge_pins

RULE = PinRule(
    "pinned-writeback",
    "Unwritten files hold the dead",
    frozenset({"writeback"}),
    "files that were dirty when they died",
    "flush",
)
ID = RULE.id


def judge_pinned_writeback(case: Case) -> Finding:
    return judge_pins(case, RULE)
