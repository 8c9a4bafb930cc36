# SPDX-License-Identifier: Apache-2.0
"""A unit that systemd restarts over and over. What it left counts more than how often it ran: the quiet one may be the culprit."""

from typing import TYPE_CHECKING

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Evidence, Finding, Role
from zombiescope.diagnosis.loops import churn_seen, evidence_of, judge_audit_loops, judge_loops, suspects_of
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.facts.gap import Gap
from zombiescope.facts.remedies import Remedy

if TYPE_CHECKING:
    from zombiescope.diagnosis.audit import Audit

FINDING = Declaration(
    id="crash-looping-unit",
    title="A unit is restarted over and over",
    role=Role.ORIGIN,
    remedies=(Remedy.STOP_UNIT, Remedy.LIMIT_RESTARTS),
    loops=frozenset({"unit"}),
    thing="a unit in a restart loop",
    link="{who} is restarted over and over",
    somebody="a unit",
    what="systemd restarts a unit again and again.",
    matters=(
        "Each start makes a cgroup and each end may leave a zombie. What it left counts more than how often it ran."
    ),
    do="Stop it if nothing needs it, or give it a start limit that can trip.",
    judged_by=("leak_least_zombies", "blame_share"),
    next="zombiescope audit",
    proven_by="loop-leaks",
)
_NOT_ASKED = "systemd could not be asked"


def judge(case: Case) -> Finding:
    seen = case.services
    if isinstance(seen, Gap):
        return FINDING.unknown(seen.reason)
    found = suspects_of(case, FINDING.loops)
    if not found and not seen.was_systemd_asked:
        return FINDING.unknown(_NOT_ASKED)
    watched = Evidence("watched", round(seen.seconds, 1), "seconds", "systemctl show", seen.at)
    evidence = (watched, *evidence_of(case, found, seen))
    judged = judge_loops(FINDING, found, evidence, case.thresholds, churn_seen(case.remains))
    return judged or FINDING.absent(f"none of {seen.starting:,} services", evidence)


def judge_audit(audit: "Audit", at: float) -> Finding:
    found = judge_audit_loops(FINDING, audit, at, Thresholds())
    if found is None and not audit.was_systemd_asked:
        return FINDING.unknown(_NOT_ASKED)
    return found or FINDING.absent(f"none of {len(audit.starting):,} services")
