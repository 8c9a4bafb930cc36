# SPDX-License-Identifier: Apache-2.0
"""No two lines disagree in what is told from files alone: a history's text and document, and an audit's beside its check."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.cli.test_history import leak, two_makers
from tests.unit.machines.answers import asked
from tests.unit.trees import INCIDENT, plant

from zombiescope.analysis.recall import derive_recall
from zombiescope.diagnosis.gate import GateReason, GateVerdict, judge_gate
from zombiescope.facts.history import MAKER_PREFIX, Sample
from zombiescope.presenters.document import null_fields
from zombiescope.presenters.gate_json import render_text
from zombiescope.presenters.history_text import growth_sentence


@pytest.mark.parametrize("make", [leak, two_makers])
@pytest.mark.parametrize("moment", [(), ("--at", "2023-11-15T00:00")])
def test_the_text_of_a_history_is_its_document(make: object, moment: tuple[str, ...], tmp_path: Path) -> None:
    if make is leak:
        leak(tmp_path, 1.7e9)
    else:
        two_makers(tmp_path)
    words = ("history", "--state", str(tmp_path), "--last", "all", *moment)
    (_, text), (_, said) = asked(*words), asked(*words, "--json")
    document = json.loads(said)
    assert text.splitlines()[1].startswith(f"{document['samples']:,} samples")
    gaps = {gap["fact"] for gap in document["gaps"]}
    assert not [field for field in null_fields(document) if field not in gaps]
    per_hour = document["growth"]["per_hour"]
    sentence = text.splitlines()[0]
    total = next((each["last"] for each in document["series"] if each["name"] == "zombies"), None)
    assert sentence.startswith((f"{total:,.0f} zombies", "too little is remembered"))
    if per_hour is not None and "more per hour" in sentence:
        assert f"{per_hour:.1f} more per hour" in sentence
    if document["moment"]:
        makers = {name: value for name, value in document["moment"]["values"].items() if name.startswith(MAKER_PREFIX)}
        told = [line.partition(" left by ") for line in text.splitlines() if " left by " in line]
        assert [f"{MAKER_PREFIX}{name}" for _, _, name in told] == sorted(
            makers, key=lambda name: (-makers[name], name)
        )
        return
    for series in document["series"]:
        name = series["name"].removeprefix(MAKER_PREFIX).replace("_", " ")
        row = next(line for line in text.splitlines()[2:] if f" {name} " in f" {line} ")
        figures = [f"{series[which]:,.10g}" for which in ("first", "last", "min", "max")]
        assert " ".join(figures) in " ".join(row.split())


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 300)), min_size=8, max_size=40))
def test_whoever_a_history_names_rose_most_of_those_it_lists(rises: list[tuple[int, int]]) -> None:
    """Two makers in any shape: none is named alone while the other rose by more."""
    samples, one, other = [], 0, 0
    for number, (first, second) in enumerate(rises):
        one, other = one + first, other + second
        values = {"zombies": float(one + other), "maker.a": float(one), "maker.b": float(other)}
        samples.append(Sample(number, 60.0 * number, "boot", values))
    found = derive_recall(samples, [])
    assert found is not None
    sentence = growth_sentence(found.growth, found.risen)
    named = re.search(r"most by (\w)", sentence)
    if named and found.risen:
        loudest = found.risen[0]
        assert dict(found.risen)[named[1]] == loudest[1]


def test_an_audit_and_a_check_of_one_tree_name_the_same_units(tmp_path: Path) -> None:
    root = ("--root", str(plant(tmp_path / "incident", INCIDENT)))
    (_, text), (_, said), (_, checked) = (
        asked("audit", *root),
        asked("audit", "--json", *root),
        asked("check", "--json", *root),
    )
    audit, check = json.loads(said), json.loads(checked)
    head = re.search(r"(\d+) of (\d+) services start \((\d+) needed, (\d+) unneeded, (\d+) unknown\)", text)
    assert head is not None
    starting, every, *needs = map(int, head.groups())
    assert starting == sum(needs)
    assert every == len(audit["units"])
    unneeded = {unit["name"] for unit in audit["units"] if unit["verdict"] == "unneeded"}
    assert len(unneeded) == needs[1]
    judged = {reason["what"].partition(":")[2] for reason in check["reasons"] if ":" in reason["what"]}
    assert judged == unneeded
    table = text.partition("\nunit ")[2]
    assert all(name in table for name in unneeded)


def test_what_is_fine_above_its_limit_does_not_stand_beside_the_bare_limit() -> None:
    grown = GateReason(
        "growth", 359.0, 100.0, GateVerdict.OK, "+359 an hour, which says nothing of so short a time", "window"
    )
    told = render_text(judge_gate([grown], (), date(2026, 1, 1)), "here")
    assert "(limit" not in told
    assert "which says nothing" in told
