# SPDX-License-Identifier: Apache-2.0
"""Every labelled scenario: origin, maker and first remedy right, and the findings that must be there and must not."""

from __future__ import annotations

import pytest
from tests.scenarios.asked import RECORDED, Outcome, diagnosis_of
from tests.scenarios.built import BUILT, STAND_INS
from tests.scenarios.labels import read_labels

LABELS = read_labels()


@pytest.mark.parametrize("name", read_labels())
def test_a_scenario_is_diagnosed_as_labelled(name: str) -> None:
    found = diagnosis_of(name)
    assert found is not None
    outcome = Outcome(LABELS[name], found)
    said = f"{found.verdict} {found.chains}"
    assert found.origin == outcome.label.origin, said
    assert outcome.maker_right, f"{found.maker}: {said}"
    assert found.first_remedy == outcome.label.first_remedy, said
    assert outcome.wrong_findings == [], said


def test_a_scenario_is_what_its_label_says_it_is() -> None:
    assert set(BUILT) <= {name for name, label in LABELS.items() if not label.real}
    assert set(RECORDED) | set(STAND_INS) <= {name for name, label in LABELS.items() if label.real}
    assert set(BUILT) | set(RECORDED) | set(STAND_INS) == set(LABELS)


def test_enough_of_them_were_recorded_on_real_kernels_and_each_is_small() -> None:
    assert len(RECORDED) >= 10
    assert all(file.stat().st_size < 100_000 for file in RECORDED.values())
