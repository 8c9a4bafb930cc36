# SPDX-License-Identifier: Apache-2.0
"""No two lines of one answer disagree: laws over every scenario, on slower and faster machines, with each fact missing."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.scenarios.asked import case_of
from tests.scenarios.labels import read_labels
from tests.scenarios.speed import all_times, machine
from tests.unit.diagnosis.test_rules import gapped

from zombiescope.analysis.maker import maker_said
from zombiescope.analysis.scan import Population
from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.engine import Diagnosis, diagnose
from zombiescope.diagnosis.finding import Verdict
from zombiescope.diagnosis.gate import judge_gate, judge_population
from zombiescope.diagnosis.stock import growing_of
from zombiescope.diagnosis.thresholds import Severity, Thresholds
from zombiescope.facts.cgroups import CountSource
from zombiescope.facts.gap import Gap
from zombiescope.presenters.doctor_report import Report, render_report
from zombiescope.presenters.document import null_fields
from zombiescope.presenters.prometheus_rules import render_rules

PINS = ("pinned-page-cache", "pinned-shared-memory", "pinned-swap", "pinned-writeback", "pinned-other")


def variants(name: str) -> Iterator[Case]:
    seen = case_of(name)
    assert seen is not None
    yield seen
    for factor in (1 / 3, 3.0):
        yield all_times(seen, factor)
        yield machine(seen, factor)
    yield from gapped(seen)


@pytest.mark.parametrize("name", read_labels())
def test_no_two_lines_of_an_answer_disagree(name: str) -> None:
    for seen in variants(name):
        found = diagnose(seen)
        for law in LAWS:
            law(seen, found)


def findings_are_whole(seen: Case, found: Diagnosis) -> None:
    del seen
    for finding in found.findings:
        match finding.verdict:
            case Verdict.PRESENT:
                assert finding.severity in (Severity.WARNING, Severity.CRITICAL), finding
            case Verdict.ABSENT:
                assert (finding.severity, finding.remedies, finding.explained_by) == (Severity.OK, (), ()), finding
            case Verdict.UNKNOWN:
                assert (finding.severity, finding.remedies) == (Severity.UNKNOWN, ()), finding
        assert finding.summary


def the_verdict_is_the_findings(seen: Case, found: Diagnosis) -> None:
    del seen
    present = {finding.id for finding in found.present}
    assert found.verdict.startswith(("healthy: ", "nothing wrong was seen: ")) == (found.origin == "none")
    if found.origin == "none":
        assert not present
    if present:
        assert found.origin == found.chains[0][-1]
        assert found.first_remedy in ("", *found.finding(found.origin).remedies)
        assert {each for chain in found.chains for each in chain} <= present


def what_holds_them_is_not_said_twice(seen: Case, found: Diagnosis) -> None:
    del seen
    if "what holds them could not be seen" in found.verdict:
        assert not any(finding.id in PINS for finding in found.present)
        assert not any(word in found.verdict for word in ("shared memory holds", "are held by"))


def growth_is_in_the_first_line_and_never_denied(seen: Case, found: Diagnosis) -> None:
    growth = found.finding("zombie-growth")
    if growth.verdict is Verdict.PRESENT and found.origin != "none":
        assert "growing" in found.verdict or "while we looked" in found.verdict, found.verdict
    if growing_of(seen):
        assert growth.verdict is Verdict.PRESENT
        assert "nothing was seen to make more" not in found.verdict
        assert "nothing out of the ordinary" not in found.verdict


def what_was_left_is_left(seen: Case, found: Diagnosis) -> None:
    del seen
    if "leaves nothing behind" in found.verdict:
        assert "and left" not in found.finding("crash-looping-unit").summary


def a_cause_is_ruled_out_with_its_reason(seen: Case, found: Diagnosis) -> None:
    del seen
    assert "do not explain it" not in " ".join([found.verdict, *(finding.summary for finding in found.findings)])
    shortage, walk = found.finding("memory-shortage"), found.finding("costly-reclaim-walk")
    if "it may walk over them" in walk.summary:
        assert shortage.verdict is not Verdict.PRESENT or "limit" in shortage.summary
    if "walks over zombies, not for want" in shortage.summary:
        assert walk.verdict is not Verdict.ABSENT


def whoever_is_named_is_named_once(seen: Case, found: Diagnosis) -> None:
    del seen
    if found.maker:
        assert maker_said(found.maker) in found.verdict, (found.maker, found.verdict)


def the_stock_is_one_number(seen: Case, found: Diagnosis) -> None:
    population = seen.last.scan.population
    if isinstance(population, Gap) or "dead memory cgroups are still in the kernel" not in found.verdict:
        return
    walked = population.zombies if isinstance(seen.remains, Gap) else seen.remains.zombies
    told = found.verdict.partition(" dead memory cgroups")[0].rpartition(" ")[2]
    assert told in (f"{population.zombies:,}", f"{walked:,}")


def a_null_has_its_gap(seen: Case, found: Diagnosis) -> None:
    document = render_report(Report(seen, found))
    gaps = {gap["fact"] for gap in document["gaps"]}
    assert not [field for field in null_fields(document) if field not in gaps and not field.startswith("host.")]


LAWS = (
    findings_are_whole,
    the_verdict_is_the_findings,
    what_holds_them_is_not_said_twice,
    growth_is_in_the_first_line_and_never_denied,
    what_was_left_is_left,
    a_cause_is_ruled_out_with_its_reason,
    whoever_is_named_is_named_once,
    the_stock_is_one_number,
    a_null_has_its_gap,
)
_WORDS = {Severity.OK: "OK", Severity.WARNING: "WARNING", Severity.CRITICAL: "CRITICAL"}


@given(st.integers(0, 100_000), st.integers(1, 20_000), st.integers(0, 2_000))
def test_scan_doctor_and_check_call_one_stock_by_one_name(zombies: int, live: int, expected: int) -> None:
    population = Population(zombies + live, live, CountSource.PROC_CGROUPS)
    reasons = judge_population(population, Thresholds(expected_live=expected))
    verdict = judge_gate(reasons, (), date(2026, 1, 1)).verdict
    assert verdict == _WORDS[Thresholds(expected_live=expected).of_population(population)]


def test_the_exported_rules_compare_with_the_same_numbers() -> None:
    text, limits = render_rules(), Thresholds()
    for number in (limits.zombies_warning, limits.zombies_critical, limits.ratio_critical_zombies):
        assert f">= {number}" in text
    assert f">= {limits.ratio_critical:g} and" in text
