# SPDX-License-Identifier: Apache-2.0
"""Zombies held by page cache: files on a disk that the dead read or wrote first. Their cache can be dropped, the files stay."""

from __future__ import annotations

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Finding, Role
from zombiescope.diagnosis.stock import judge_pins
from zombiescope.facts.remedies import Remedy

FINDING = Declaration(
    id="pinned-page-cache",
    title="Page cache holds the dead",
    role=Role.MECHANISM,
    explained_by=("crash-looping-unit", "looping-container", "zombie-growth"),
    remedies=(Remedy.RECLAIM_PARENT,),
    pins=frozenset({"page_cache"}),
    held_by="cached file pages",
    thing="zombies held by page cache",
    link="cached file pages keep the dead cgroups",
    what="Cached pages of files on disk hold the zombies: the dead cgroup was the first to read or write them.",
    matters="The files are usually still in use, so the cache stays for weeks.",
    do="Drop the cache of the files that are named, or reclaim memory at the nearest live parent. The files stay.",
    judged_by=("pin_share",),
    next="zombiescope plan",
    proven_by="page-cache",
)


def judge(case: Case) -> Finding:
    return judge_pins(case, FINDING)
