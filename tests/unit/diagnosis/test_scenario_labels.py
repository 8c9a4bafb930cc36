# SPDX-License-Identifier: Apache-2.0
"""The labelled scenarios are enough, and each has a near-twin whose answer differs."""

from __future__ import annotations

import pytest
from tests.scenarios.labels import Label, held_out_files, read_first_asked, read_labels

LABELS = read_labels()


def test_there_are_enough_of_them_and_enough_are_real() -> None:
    assert len(LABELS) >= 48
    assert sum(label.real for label in LABELS.values()) >= 20


@pytest.mark.parametrize("label", LABELS.values(), ids=lambda label: label.name)
def test_a_twin_is_there_and_its_answer_differs(label: Label) -> None:
    twin = LABELS[label.twin]
    assert (*twin.answer, twin.present, twin.severity) != (*label.answer, label.present, label.severity)
    assert twin.name != label.name


@pytest.mark.parametrize("label", LABELS.values(), ids=lambda label: label.name)
def test_a_label_does_not_contradict_itself(label: Label) -> None:
    assert not set(label.present) & set(label.absent)
    assert label.origin in (*label.present, "none", "unknown")
    assert (label.origin == "none") == (label.first_remedy == "none")
    assert len(label.why) > 20


def test_each_held_out_file_says_what_it_scored_when_the_doctor_was_first_asked() -> None:
    scores = read_first_asked()
    assert {name: score.of for name, score in scores.items()} == held_out_files()
    assert all(0 <= score.right <= score.of and score.note for score in scores.values())
