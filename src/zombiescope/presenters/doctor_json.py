# SPDX-License-Identifier: Apache-2.0
"""`zombiescope.doctor/1`: verdict, findings with their evidence, plan."""

from __future__ import annotations

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.engine import Diagnosis
from zombiescope.diagnosis.finding import Evidence, Finding
from zombiescope.facts.gap import Gap
from zombiescope.presenters.document import Json, document, rfc3339
from zombiescope.presenters.scan_json import scan_gaps

_NO_PLAN = Gap("plan", "this version names findings and does not plan remedies yet")


def render_doctor(case: Case, diagnosis: Diagnosis) -> Json:
    body: Json = {
        "verdict": diagnosis.verdict,
        "origin": diagnosis.origin,
        "maker": diagnosis.maker,
        "first_remedy": diagnosis.first_remedy,
        "chains": [list(chain) for chain in diagnosis.chains],
        "findings": [render_finding(finding) for finding in diagnosis.findings],
        "in_vain": [{"what": advice.what, "why": advice.why} for advice in diagnosis.in_vain],
        "plan": None,
    }
    return document("doctor/1", case.last.snapshot, body, [*scan_gaps(case.last), *case_gaps(case), _NO_PLAN])


def case_gaps(case: Case) -> list[Gap]:
    """What the window could not have."""
    return [fact for fact in case if isinstance(fact, Gap) and fact is not case.growth]


def render_finding(finding: Finding) -> Json:
    return {
        "id": finding.id,
        "verdict": finding.verdict,
        "severity": finding.severity,
        "role": finding.role,
        "title": finding.title,
        "summary": finding.summary,
        "evidence": [_evidence(evidence) for evidence in finding.evidence],
        "explained_by": list(finding.explained_by),
        "remedies": list(finding.remedies),
    }


def _evidence(evidence: Evidence) -> Json:
    return {
        "fact": evidence.fact,
        "value": evidence.value,
        "unit": evidence.unit,
        "source": evidence.source,
        "at": rfc3339(evidence.at),
    }
