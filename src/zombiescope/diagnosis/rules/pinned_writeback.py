# SPDX-License-Identifier: Apache-2.0
"""Zombies held by writeback: files dirty at death keep a writeback structure, and that keeps the cgroup until it is switched."""

from __future__ import annotations

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Finding, Role
from zombiescope.diagnosis.stock import judge_pins
from zombiescope.facts.remedies import Remedy

FINDING = Declaration(
    id="pinned-writeback",
    title="Unwritten files hold the dead",
    role=Role.MECHANISM,
    explained_by=("crash-looping-unit", "looping-container", "zombie-growth"),
    remedies=(Remedy.FLUSH,),
    pins=frozenset({"writeback"}),
    held_by="files that were dirty when they died",
    thing="zombies held by writeback",
    link="unwritten file data keeps the dead cgroups",
    what="Files had unwritten data when the cgroup died; the kernel's writeback record of that cgroup keeps it.",
    matters="It also happens on kernels that hand the pages of the dead to their parent.",
    do="Write everything back (sync), then let one cgroup die: the kernel then looks at the old records.",
    judged_by=("pin_share",),
    next="zombiescope plan",
    proven_by="writeback",
)


def judge(case: Case) -> Finding:
    return judge_pins(case, FINDING)
