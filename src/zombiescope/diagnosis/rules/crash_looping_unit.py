# SPDX-License-Identifier: Apache-2.0
"""A unit that systemd restarts over and over. What it left counts more than how often it ran: the quiet one may be the culprit."""

from __future__ import annotations

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Evidence, Finding, Role
from zombiescope.diagnosis.loops import Suspect, evidence_of, suspects_of, told
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap
from zombiescope.facts.remedies import Remedy

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


def judge(case: Case) -> Finding:
    seen = case.services
    if isinstance(seen, Gap):
        return FINDING.unknown(seen.reason)
    found = suspects_of(case, FINDING.loops)
    if not found and not seen.was_systemd_asked:
        why = "systemd could not be asked"
        return FINDING.unknown(why)
    watched = Evidence("watched", round(seen.seconds, 1), "seconds", "systemctl show", seen.at)
    if not found:
        summary = f"none of {seen.starting:,} services"
        return FINDING.absent(summary, (watched,))
    severity = Severity.CRITICAL if found[0].is_leaking(case.thresholds) else Severity.WARNING
    evidence = (watched, *(item for each in found for item in evidence_of(case, each, seen)))
    return FINDING.present(severity, told(found), evidence, _remedies(found[0]))


def _remedies(first: Suspect) -> tuple[Remedy, ...]:
    """A unit that something needs is slowed down; one that nothing needs is stopped and kept from coming back."""
    return FINDING.remedies if first.loop.need == "unneeded" else FINDING.remedies[::-1]
