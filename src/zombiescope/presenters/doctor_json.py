# SPDX-License-Identifier: Apache-2.0
"""`zombiescope.doctor/1`: verdict, findings with their evidence, plan."""

from __future__ import annotations

from zombiescope.analysis.correlation import LEAST_CASES, Correlation
from zombiescope.analysis.reclaim_pass import derive_reclaim_pass
from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.engine import Diagnosis
from zombiescope.diagnosis.finding import Evidence, Finding
from zombiescope.facts.gap import Gap
from zombiescope.presenters.doctor_report import Report, told_correlation
from zombiescope.presenters.document import Json, document, rfc3339
from zombiescope.presenters.plan_json import plan_gaps, render_plan
from zombiescope.presenters.pressure_json import pressure_gaps, render_pressure
from zombiescope.presenters.scan_json import handed_on_gaps, render_handed_on, scan_gaps


def render_doctor(case: Case, diagnosis: Diagnosis) -> Json:
    """Without a plan and a past: what the agent serves."""
    return render_report(Report(case, diagnosis))


def render_report(report: Report) -> Json:
    case, diagnosis, plan = report.case, report.diagnosis, report.plan
    body: Json = {
        "verdict": diagnosis.verdict,
        "origin": diagnosis.origin,
        "maker": diagnosis.maker,
        "first_remedy": diagnosis.first_remedy,
        "chains": [list(chain) for chain in diagnosis.chains],
        "findings": [render_finding(finding) for finding in diagnosis.findings],
        "in_vain": [{"what": advice.what, "why": advice.why} for advice in diagnosis.in_vain],
        "correlations": [_correlation(found) for found in report.correlations],
        "pressure": render_pressure(case.pressure),
        "handed_on": render_handed_on(case.last.snapshot.handed_on),
        "plan": None if isinstance(plan, Gap) else render_plan(plan),
    }
    gaps = [*last_gaps(case), *case_gaps(case), *pressure_gaps(case.pressure), *report.gaps, *_correlation_gaps(report)]
    gaps += [plan] if isinstance(plan, Gap) else plan_gaps(plan, "plan.")
    gaps += handed_on_gaps(case.last.snapshot.handed_on)
    return document("doctor/1", case.last.snapshot, body, gaps)


def _correlation(found: Correlation) -> Json:
    return {**found._asdict(), "is_telling": found.is_telling, "said": told_correlation(found)}


def _correlation_gaps(report: Report) -> list[Gap]:
    why = {
        "chance": "nothing was watched long enough to compare with",
        "lift": "no control moment had the cause before it",
        "p_value": f"fewer than {LEAST_CASES} cases",
    }
    return [
        Gap(f"correlations[].{name}", reason)
        for name, reason in why.items()
        if any(getattr(found, name) is None for found in report.correlations)
    ]


def last_gaps(case: Case) -> list[Gap]:
    """What its last look could not have; reclaim was watched meanwhile."""
    return scan_gaps(case.last, reclaim=derive_reclaim_pass(case.reclaim, case.last.snapshot.taken_at))


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
