# SPDX-License-Identifier: Apache-2.0
"""Zombies held by neither cache, shared memory, swap nor writeback: sockets, unreaped tasks, namespaces, locked or mapped memory,
and references that nothing explains."""

from __future__ import annotations

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Finding
from zombiescope.diagnosis.pins import PinRule, judge_pins

RULE = PinRule(
    "pinned-other",
    "Something else than pages holds the dead",
    frozenset({"socket", "task", "namespace", "anon", "unevictable", "child", "other"}),
    "sockets, tasks, namespaces or locked memory",
    "reboot",
)
ID = RULE.id


def judge_pinned_other(case: Case) -> Finding:
    return judge_pins(case, RULE)
