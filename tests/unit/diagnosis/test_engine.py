# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from tests.build import case, snapshot

from zombiescope.diagnosis.engine import Disease, at_least, diagnose, glance
from zombiescope.diagnosis.finding import Verdict
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.cgroups import EmptyDirectories, Shape, Snapshot
from zombiescope.facts.gap import Gap

UNSEEN = Gap("visible_leak.empty_directories", "may not be read")
UNCOUNTED = Gap("memcg.counted", "no row")


@pytest.mark.parametrize(
    ("facts", "disease", "first_words"),
    [
        ({}, Disease.NONE, "healthy: 0 zombies, warning from 200"),
        ({"zombies": 1000, "live": 100}, Disease.ZOMBIES, "zombies: 1,000 dead memory cgroups"),
        ({"empty": 1000, "live": 2000}, Disease.DIRECTORIES, "directories never removed: 1,000 of 1,999"),
        ({"zombies": 50_000, "empty": 10_000, "live": 20_000}, Disease.BOTH, "both diseases: zombies (50,000"),
        ({"census": UNCOUNTED}, Disease.UNKNOWN, "cannot tell: no row"),
        ({"live": 5000, "empty_directories": UNSEEN}, Disease.UNKNOWN, "cannot tell: may not be read"),
        ({"live": 999, "empty_directories": UNSEEN}, Disease.NONE, "healthy: 0 zombies, warning from 1,000"),
        ({"zombies": 1000, "live": 5000, "empty_directories": UNSEEN}, Disease.ZOMBIES, "zombies: 1,000"),
    ],
)
def test_one_disease_in_the_first_words(facts: dict[str, Any], disease: Disease, first_words: str) -> None:
    found = glance(case(snapshot(**facts)))
    assert found.disease is disease
    assert found.verdict.startswith(first_words)


def test_unknown_directories_among_a_known_leak_stay_a_leak() -> None:
    found = diagnose(case(snapshot(census=UNCOUNTED, empty=3000, live=4000)))
    assert found.disease is Disease.DIRECTORIES
    assert found.worst is Severity.WARNING


@pytest.mark.parametrize(("live", "verdict"), [(1, Verdict.ABSENT), (999, Verdict.ABSENT), (1000, Verdict.UNKNOWN)])
def test_too_few_live_cgroups_cannot_hold_a_leak(live: int, verdict: Verdict) -> None:
    finding = diagnose(case(snapshot(live=live, empty_directories=UNSEEN))).finding("visible-leak")
    assert finding.verdict is verdict
    assert [item.value for item in finding.evidence] == ([live] if verdict is Verdict.ABSENT else [])


def test_emptiness_and_number_unknown_is_unknown() -> None:
    finding = diagnose(case(snapshot(census=UNCOUNTED, empty_directories=UNSEEN))).finding("visible-leak")
    assert finding.verdict is Verdict.UNKNOWN


def test_a_sample_is_said_to_be_one() -> None:
    seen = EmptyDirectories(leaves=5000, seen=400, empty=200, examples=(b"/a\nb",))
    finding = diagnose(case(snapshot(live=6000, empty_directories=seen))).finding("visible-leak")
    assert finding.summary == "about 2,500 of 5,000 live leaf cgroups have no process"
    assert [item.value for item in finding.evidence] == [2500, 5000, r"/a\x0ab"]
    assert finding.evidence[0].source == "cgroup.procs of 400 of them"


def test_the_evidence_of_a_population_has_numbers_sources_and_the_change() -> None:
    first, last = snapshot(1000), snapshot(1500, taken_at=1_700_000_010.0)
    finding = diagnose(case(first, last)).finding("zombie-population")
    values = {item.fact: item.value for item in finding.evidence}
    assert values["zombies"] == 1500
    assert values["zombies_change"] == 500
    assert values["kernel_bytes"] == 1500 * (14_000 + 4 * 2_030)
    assert {item.at for item in finding.evidence} == {1_700_000_010.0}


def facts_of(*seen: Snapshot) -> set[str]:
    return {item.fact for item in diagnose(case(*seen)).finding("zombie-population").evidence}


def test_a_change_and_a_cost_are_not_made_up() -> None:
    assert "zombies_change" not in facts_of(snapshot(census=UNCOUNTED), snapshot(1500))
    assert "kernel_bytes" in facts_of(snapshot(1500))
    assert "kernel_bytes" not in facts_of(snapshot(1500, shape=Shape(None, 1)))


def test_severities_are_ordered() -> None:
    order = [Severity.OK, Severity.UNKNOWN, Severity.WARNING, Severity.CRITICAL]
    for low, high in pairwise(order):
        assert at_least(high, low)
        assert not at_least(low, high)
    assert diagnose(case(snapshot(zombies=20_000, live=30_000, empty=1000))).worst is Severity.CRITICAL


def test_the_same_case_gives_the_same_finding() -> None:
    assert diagnose(case(snapshot(1234))) == diagnose(case(snapshot(1234)))
