# SPDX-License-Identifier: Apache-2.0
"""A unit that systemd restarts over and over. What it left counts more than how often it ran: the quiet one may be the culprit."""

from __future__ import annotations

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Evidence, Finding, Role, Verdict
from zombiescope.diagnosis.loops import Suspect, evidence_of, suspects_of, told
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap

ID = "crash-looping-unit"
TITLE = "A unit is restarted over and over"


def judge_crash_looping_unit(case: Case) -> Finding:
    seen = case.services
    if isinstance(seen, Gap):
        return Finding(ID, Verdict.UNKNOWN, Severity.UNKNOWN, Role.ORIGIN, TITLE, seen.reason, ())
    found = suspects_of(case, frozenset({"unit"}))
    if not found and not seen.was_systemd_asked:
        why = "systemd could not be asked"
        return Finding(ID, Verdict.UNKNOWN, Severity.UNKNOWN, Role.ORIGIN, TITLE, why, ())
    watched = Evidence("watched", round(seen.seconds, 1), "seconds", "systemctl show", seen.at)
    if not found:
        summary = f"none of {seen.starting:,} services"
        return Finding(ID, Verdict.ABSENT, Severity.OK, Role.ORIGIN, TITLE, summary, (watched,))
    severity = Severity.CRITICAL if found[0].is_leaking(case.thresholds) else Severity.WARNING
    evidence = (watched, *(item for each in found for item in evidence_of(case, each, seen)))
    return Finding(ID, Verdict.PRESENT, severity, Role.ORIGIN, TITLE, told(found), evidence, (), _remedies(found[0]))


def _remedies(first: Suspect) -> tuple[str, ...]:
    """A unit that something needs is slowed down; one that nothing needs is stopped and kept from coming back."""
    return ("stop-unit", "limit-restarts") if first.loop.need == "unneeded" else ("limit-restarts", "stop-unit")
