# SPDX-License-Identifier: Apache-2.0
"""Zombies held by neither cache, shared memory, swap nor writeback: sockets, unreaped tasks, namespaces, locked or mapped memory,
and references that nothing explains."""

from __future__ import annotations

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Finding, Role
from zombiescope.diagnosis.stock import judge_pins
from zombiescope.facts.remedies import Remedy

FINDING = Declaration(
    id="pinned-other",
    title="Something else than pages holds the dead",
    role=Role.MECHANISM,
    explained_by=("crash-looping-unit", "looping-container", "zombie-growth"),
    remedies=(Remedy.REBOOT, Remedy.RESTART_PROCESS, Remedy.CLOSE_SOCKET, Remedy.REAP_PROCESS, Remedy.UNMOUNT),
    pins=frozenset({"socket", "task", "namespace", "anon", "unevictable", "child", "other"}),
    held_by="sockets, tasks, namespaces or locked memory",
    thing="zombies held by something else",
    link="other references keep the dead cgroups",
    what=(
        "Something other than pages holds the zombies: sockets, unreaped processes, namespaces, locked memory, "
        "or references that nothing explains."
    ),
    matters="No lever on memory frees them.",
    do=(
        "Close the sockets, reap the processes or restart the holder that the autopsy names. What has no name "
        "goes only with a reboot."
    ),
    judged_by=("pin_share",),
    next="zombiescope autopsy",
    proven_by="sockets",
)


def judge(case: Case) -> Finding:
    return judge_pins(case, FINDING)
