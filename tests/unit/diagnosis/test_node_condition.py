# SPDX-License-Identifier: Apache-2.0
"""Which findings are pressure, and how it is said."""

from __future__ import annotations

import pytest

from zombiescope.diagnosis.engine import REASONS, ConditionStatus, Diagnosis, Disease, judge_condition
from zombiescope.diagnosis.finding import Finding, Role, Verdict
from zombiescope.diagnosis.thresholds import Severity

OK, WARNING, CRITICAL, UNKNOWN = Severity.OK, Severity.WARNING, Severity.CRITICAL, Severity.UNKNOWN


def found(name: str, verdict: Verdict, severity: Severity) -> Finding:
    return Finding(name, verdict, severity, Role.SYMPTOM, "", f"what {name} says", ())


def diagnosis(*findings: Finding) -> Diagnosis:
    return Diagnosis(Disease.NONE, "", findings)


HEALTHY = found("zombie-population", Verdict.ABSENT, OK)


@pytest.mark.parametrize(
    ("findings", "status", "reason"),
    [
        ((HEALTHY,), ConditionStatus.FALSE, "NoZombieMemcgPressure"),
        ((found("zombie-population", Verdict.PRESENT, OK),), ConditionStatus.FALSE, "NoZombieMemcgPressure"),
        ((found("zombie-population", Verdict.PRESENT, WARNING),), ConditionStatus.TRUE, "ZombieMemcgAboveLimit"),
        ((found("zombie-population", Verdict.UNKNOWN, UNKNOWN),), ConditionStatus.UNKNOWN, "ZombieMemcgNotCounted"),
        ((), ConditionStatus.UNKNOWN, "ZombieMemcgNotCounted"),
        ((HEALTHY, found("costly-sweep", Verdict.PRESENT, WARNING)), ConditionStatus.TRUE, "CostlyMemcgSweep"),
        (
            (
                found("zombie-population", Verdict.PRESENT, WARNING),
                found("costly-reclaim-walk", Verdict.PRESENT, CRITICAL),
            ),
            ConditionStatus.TRUE,
            "CostlyMemcgReclaim",
        ),
        ((HEALTHY, found("zombie-growth", Verdict.PRESENT, CRITICAL)), ConditionStatus.FALSE, "NoZombieMemcgPressure"),
        (
            (HEALTHY, found("looping-container", Verdict.PRESENT, CRITICAL)),
            ConditionStatus.FALSE,
            "NoZombieMemcgPressure",
        ),
    ],
)
def test_what_is_pressure(findings: tuple[Finding, ...], status: ConditionStatus, reason: str) -> None:
    judged = judge_condition(diagnosis(*findings))
    assert (judged.status, judged.reason) == (status, reason)
    assert reason in REASONS
    assert judged.message


def test_the_one_who_made_most_is_named_within_bounds() -> None:
    bad = diagnosis(found("zombie-population", Verdict.PRESENT, WARNING))
    assert judge_condition(bad, {"workload:a/Deployment/b": 7, "unit:c": 3}).message.endswith(
        "most of them made by workload:a/Deployment/b (7)"
    )
    assert "made by" not in judge_condition(bad, {"unit:c": 0}).message
    assert len(judge_condition(bad, {"x" * 4000: 1}).message) <= 512
