# SPDX-License-Identifier: Apache-2.0
"""Zombies held by shared memory: tmpfs files, memfds, shared mappings, System V segments. Reclaim cannot free it: it goes with
its file, its segment or its holder."""

from __future__ import annotations

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Finding, Role
from zombiescope.diagnosis.stock import judge_pins
from zombiescope.facts.remedies import Remedy

FINDING = Declaration(
    id="pinned-shared-memory",
    title="Shared memory holds the dead",
    role=Role.MECHANISM,
    explained_by=("crash-looping-unit", "looping-container", "zombie-growth"),
    remedies=(Remedy.DELETE_FILE, Remedy.REMOVE_SEGMENT, Remedy.RESTART_PROCESS),
    pins=frozenset({"tmpfs", "memfd", "shared_anon", "sysv_shm"}),
    held_by="shared memory",
    thing="zombies held by shared memory",
    link="shared memory keeps the dead cgroups",
    what="Shared memory holds the zombies: tmpfs files, memfds, shared mappings or System V segments.",
    matters=(
        "Reclaim cannot free it, and dropping caches does nothing. It goes with its file, its segment or the "
        "process that holds it."
    ),
    do=(
        "Rewrite or delete the files that nobody has open, remove segments that nobody has attached, or restart "
        "the holder."
    ),
    judged_by=("pin_share",),
    next="zombiescope plan",
    proven_by="tmpfs",
)


def judge(case: Case) -> Finding:
    return judge_pins(case, FINDING)
