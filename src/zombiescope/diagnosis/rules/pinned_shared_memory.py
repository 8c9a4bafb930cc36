# SPDX-License-Identifier: Apache-2.0
"""Zombies held by shared memory: tmpfs files, memfds, shared mappings, System V segments. Reclaim cannot free it: it goes with
its file, its segment or its holder."""

from __future__ import annotations

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Finding
from zombiescope.diagnosis.pins import PinRule, judge_pins

RULE = PinRule(
    "pinned-shared-memory",
    "Shared memory holds the dead",
    frozenset({"tmpfs", "memfd", "shared_anon", "sysv_shm"}),
    "shared memory",
    "delete-file",
)
ID = RULE.id


def judge_pinned_shared_memory(case: Case) -> Finding:
    return judge_pins(case, RULE)
