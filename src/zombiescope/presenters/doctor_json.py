# SPDX-License-Identifier: Apache-2.0
"""`zombiescope.doctor/1`: verdict, findings with their evidence, plan."""

from __future__ import annotations

from collections.abc import Mapping

from zombiescope.analysis.comparing import LEAST_CASES, Correlation
from zombiescope.analysis.scan import derive_reclaim_pass
from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.engine import Diagnosis
from zombiescope.diagnosis.finding import Evidence, Finding
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.facts.reclaim import PressurePoint, PressureSeen, Stalls
from zombiescope.presenters.doctor_report import Report, told_correlation
from zombiescope.presenters.document import Json, document, rfc3339
from zombiescope.presenters.plan_json import plan_gaps, render_plan
from zombiescope.presenters.scan_json import handed_on_gaps, render_handed_on, scan_gaps

_RATES = ("direct_pages", "kswapd_pages", "limit_pages", "major_faults")
_NO_RATE = "the counters in /proc/vmstat do not tell it on this kernel"
_NO_KSWAPD = "no kswapd is visible"


def render_pressure(seen: PressureSeen | Gap) -> Json | None:
    if isinstance(seen, Gap):
        return None
    return {
        "began_at": rfc3339(seen.began_at),
        "seconds": round(seen.seconds, 3),
        "points": [_point(point, with_groups=not isinstance(seen.groups, Gap)) for point in seen.points],
        "throttled": None
        if isinstance(seen.throttled, Gap)
        else [
            {**group._asdict(), "path": shown(group.path), "seconds": round(group.seconds, 3)}
            for group in seen.throttled
        ],
    }


def _point(point: PressurePoint, *, with_groups: bool) -> Json:
    rates = {name: _rounded(getattr(point, name), 1) for name in _RATES}
    groups = {shown(path): _shares(stalls) for path, stalls in point.groups.items()}
    return {
        "at": rfc3339(point.at),
        "seconds": round(point.seconds, 3),
        **rates,
        "kswapd_share": _rounded(point.kswapd_share, 4),
        "stalls": _shares(point.stalls),
        "groups": groups if with_groups else None,
    }


def _shares(stalls: Stalls) -> Mapping[str, float]:
    return {name: round(share, 4) for name, share in stalls.items()}


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def pressure_gaps(seen: PressureSeen | Gap) -> list[Gap]:
    """A gap for each field that is null; where nothing at all was watched, the case names it."""
    if isinstance(seen, Gap):
        return []
    unread = {gap.fact: gap for gap in seen.gaps}
    why = unread.get("pressure", Gap("", _NO_RATE))
    missing = [name for name in _RATES if any(getattr(point, name) is None for point in seen.points)]
    found = [why.about(f"pressure.points[].{name}") for name in missing]
    if any(point.kswapd_share is None for point in seen.points):
        found.append(Gap("pressure.points[].kswapd_share", _NO_KSWAPD))
    if "pressure.stalls" in unread:
        found.append(unread["pressure.stalls"].about("pressure.points[].stalls"))
    if isinstance(seen.throttled, Gap):
        found.append(seen.throttled.about("pressure.throttled"))
    if isinstance(seen.groups, Gap) and seen.points:
        found.append(seen.groups)
    return found


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
        "in_vain": [{"what": advice.what, "why": advice.why} for advice in diagnosis.useless],
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
