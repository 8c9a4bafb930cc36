# SPDX-License-Identifier: Apache-2.0
"""The labelled runs, replayed: every core that was clearly held is found where and when it was held, and nothing else is, in no
run. `bench/bench_cores.py` prints the figures of all, those near the line between busy and saturated included."""

from __future__ import annotations

import json

import pytest
from tests.cores import scoring

from zombiescope.cli.main import main


def test_there_are_enough_of_both_halves_and_of_both_answers() -> None:
    runs = scoring.labels()
    assert len(runs) >= 20
    for half in scoring.HALVES:
        mine = [label for label in runs if label.half == half]
        assert len(mine) >= 10
        assert {label.saturates for label in mine} == {True, False}
    loads = [{label.load for label in runs if label.half == half} for half in scoring.HALVES]
    assert sum(map(len, loads)) == len(set.union(*loads)), "a load that was seen before is not unseen"


@pytest.mark.parametrize("half", scoring.HALVES)
def test_ten_looks_a_second_find_every_stretch_to_a_fifth_of_a_second(half: str) -> None:
    pairs = [(each, scoring.by_command(each)) for each in scoring.labels() if each.half == half]
    found = scoring.score(pairs)
    assert found.false == 0
    assert scoring.score([pair for pair in pairs if pair[0].is_clear]).missed == 0
    assert found.found >= 6
    assert found.begin_error <= 0.2
    assert found.seconds_error <= 0.2


@pytest.mark.parametrize("half", scoring.HALVES)
def test_one_look_a_second_finds_every_long_stretch_to_a_second(half: str) -> None:
    """Shorter than two looks may lie across them: not promised."""
    pairs = [(each, scoring.by_agent(each)) for each in scoring.labels() if each.half == half]
    found = scoring.score(pairs)
    assert found.false == 0
    assert scoring.score([pair for pair in pairs if pair[0].is_clear and pair[0].seconds >= 1.9]).missed == 0
    assert found.begin_error <= 1
    assert found.seconds_error <= 1


def test_a_run_replays_through_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    label = next(each for each in scoring.labels() if each.saturates)
    assert main(["cores", "--json", "--seconds", "6", "--root", str(scoring.FOLDER / label.file)]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert [stretch["core"] for stretch in answer["stretches"]] == [label.core]
    assert answer["stretches"][0]["blame"] is None
    assert any(gap["fact"] == "stretches[].blame" for gap in answer["gaps"])
