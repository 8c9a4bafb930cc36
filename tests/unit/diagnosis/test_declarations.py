# SPDX-License-Identifier: Apache-2.0
"""What a finding declares is whole, and everything that speaks of findings derives from it."""

from __future__ import annotations

import pytest
from tests.scenarios.asked import diagnosis_of
from tests.scenarios.labels import read_labels

from zombiescope.diagnosis.catalogue import FINDINGS
from zombiescope.diagnosis.finding import Declaration, Role, Verdict
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.facts.remedies import Remedy
from zombiescope.pipeline.explain import Library
from zombiescope.presenters.doctor_report import told_remedy

LABELS = read_labels()
DECLARED = pytest.mark.parametrize("declared", FINDINGS.values(), ids=FINDINGS)


@DECLARED
def test_it_has_all_its_words(declared: Declaration) -> None:
    needed = ("title", "thing", "link", "what", "matters", "do", "next", "proven_by")
    assert [name for name in needed if not getattr(declared, name)] == []
    assert declared.title[0].isupper() and not declared.title.endswith(".")
    assert all(getattr(declared, name).endswith(".") for name in ("what", "matters", "do"))
    assert declared.next.startswith("zombiescope ")
    assert declared.link.format(who="x.service", stock="7 zombies")
    assert declared.spoken.format(title="a title", summary="so many", not_zombies="no zombies")


@DECLARED
def test_what_it_names_is_there(declared: Declaration) -> None:
    assert set(declared.explained_by) <= set(FINDINGS) - {declared.id}
    assert set(declared.judged_by) <= set(Thresholds._fields)
    assert declared.role is not Role.ORIGIN or declared.remedies, "an origin is where something can be done"
    assert bool(declared.pins) == bool(declared.held_by)


@DECLARED
def test_what_follows_from_something_has_words_for_it(declared: Declaration) -> None:
    """Links between what hurts and its root are told; what holds zombies and how many there are is in the sentence anyhow."""
    is_told = declared.pins or declared.id in ("zombie-population", "zombie-growth", "image-risk", "cpu-shortage")
    assert not declared.explained_by or declared.follows or is_told


@DECLARED
def test_the_scenario_that_proves_it_has_it(declared: Declaration) -> None:
    assert declared.proven_by in LABELS, "tests/scenarios/labels.toml"
    found = diagnosis_of(declared.proven_by)
    assert found is not None
    assert found.finding(declared.id).verdict is Verdict.PRESENT


@pytest.mark.parametrize("name", LABELS)
def test_a_finding_asks_only_for_what_it_declares(name: str) -> None:
    """Of what holds zombies the autopsy tells what lets go of it: any of the levers."""
    found = diagnosis_of(name)
    assert found is not None
    for each in found.present:
        assert FINDINGS[each.id].pins or set(each.remedies) <= set(FINDINGS[each.id].remedies), each.id
        assert each.role is FINDINGS[each.id].role


@DECLARED
def test_its_page_is_made_of_it(declared: Declaration) -> None:
    (page,) = Library().pages(declared.id)
    assert page.title == declared.title
    assert [text for _, text in page.rows][:3] == [declared.what, declared.matters, declared.do]


@pytest.mark.parametrize("remedy", Remedy)
def test_a_remedy_has_words_and_is_never_its_id(remedy: Remedy) -> None:
    assert remedy.value not in told_remedy(remedy).split()
    assert " " in told_remedy(remedy)
    assert not remedy.cost or (remedy.alone and remedy.doing)
