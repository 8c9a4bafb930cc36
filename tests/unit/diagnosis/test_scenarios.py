# SPDX-License-Identifier: Apache-2.0
"""Every labelled scenario: origin, maker and first remedy right, and the findings that must be there and must not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.scenarios.asked import RECORDED, Outcome, case_of, diagnosis_of
from tests.scenarios.built import BUILT, STAND_INS
from tests.scenarios.held_out import HELD_OUT
from tests.scenarios.labels import read_labels
from tests.scenarios.speed import all_times, machine

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.engine import diagnose

LABELS = read_labels()
Change = Callable[[Case, float], Case]


@pytest.mark.parametrize("name", read_labels())
def test_a_scenario_is_diagnosed_as_labelled(name: str) -> None:
    found = diagnosis_of(name)
    assert found is not None
    outcome = Outcome(LABELS[name], found)
    said = f"{found.verdict} {found.chains}"
    assert found.origin == outcome.label.origin, said
    assert outcome.maker_right, f"{found.maker}: {said}"
    assert outcome.remedy_right, said
    assert outcome.wrong_findings == [], said


@pytest.mark.parametrize("change", [all_times, machine])
@pytest.mark.parametrize("factor", [1 / 3, 3.0])
@pytest.mark.parametrize("name", read_labels())
def test_a_slower_and_a_faster_machine_get_the_same_answer(name: str, factor: float, change: Change) -> None:
    seen, label = case_of(name), LABELS[name]
    assert seen is not None
    found = diagnose(change(seen, factor))
    said = f"{found.verdict} {found.chains}"
    assert found.origin == label.origin, said
    assert found.first_remedy in label.first_remedy.split("|"), said


def test_a_scenario_is_what_its_label_says_it_is() -> None:
    built = {*BUILT, *HELD_OUT}
    assert built <= {name for name, label in LABELS.items() if not label.real}
    assert set(RECORDED) | set(STAND_INS) <= {name for name, label in LABELS.items() if label.real}
    assert built | set(RECORDED) | set(STAND_INS) == set(LABELS)


def test_what_is_labelled_a_real_run_was_recorded() -> None:
    assert {name for name, label in LABELS.items() if label.real} == set(RECORDED)


def test_enough_of_them_were_recorded_on_real_kernels_and_each_is_small() -> None:
    assert len(RECORDED) >= 20
    assert all(file.stat().st_size < 100_000 for file in RECORDED.values())
