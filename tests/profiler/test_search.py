# SPDX-License-Identifier: Apache-2.0
"""The right capture of many is found first: by function, cause, process, cgroup, core, time, or by no question at all."""

from __future__ import annotations

import gzip
import json
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.profiler.planted import CAPTURES, PLANTS, SECONDS, WALL, Plant, make_ring, question_of

from zombiescope.cli.main import main
from zombiescope.pipeline.profile_events import cause_words
from zombiescope.profiler.files.beside import read_beside
from zombiescope.profiler.files.ring import held
from zombiescope.profiler.files.summing import Summing
from zombiescope.profiler.finding import find_in_folder
from zombiescope.profiler.formats.capture_file import read_names
from zombiescope.profiler.formats.summary_document import read_document
from zombiescope.profiler.stacks.capture import BrokenCapture
from zombiescope.profiler.stacks.searching import Question

CAUSE_OF = cause_words()[0]
Ring = tuple[Path, dict[Plant, tuple[str, float]]]


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Ring:
    folder = tmp_path_factory.mktemp("ring")
    return folder, make_ring(folder, np.random.default_rng(26), CAUSE_OF)


def found_first(folder: Path, planted: dict[Plant, tuple[str, float]], plant: Plant) -> bool:
    """The capture, and a moment in it that overlaps the one that was planted."""
    name, begin = planted[plant]
    hits = find_in_folder(os.fsencode(folder), question_of(plant, name), CAUSE_OF).hits
    return bool(hits) and hits[0].name == name and hits[0].at < begin + plant.seconds and hits[0].until > begin


def test_ten_planted_moments_are_found_first(ring: Ring) -> None:
    folder, planted = ring
    found = [found_first(folder, planted, plant) for plant in PLANTS]
    assert len(found) == 10
    assert sum(found) >= 9, [plant.question for plant, is_found in zip(PLANTS, found, strict=True) if not is_found]


def test_other_rings_have_theirs_found_too(tmp_path: Path) -> None:
    """Not tuned on: other bursts, other places."""
    total = 0
    for seed in (1, 2):
        folder = tmp_path / str(seed)
        planted = make_ring(folder, np.random.default_rng(seed), CAUSE_OF)
        total += sum(found_first(folder, planted, plant) for plant in PLANTS)
    assert total >= 18


def test_what_is_asked_for_and_not_there_is_not_found(ring: Ring) -> None:
    assert find_in_folder(os.fsencode(ring[0]), Question(function="no_such_function"), CAUSE_OF).hits == []


def test_a_time_gives_its_capture(ring: Ring, capsys: pytest.CaptureFixture[str]) -> None:
    at = WALL + 7.5 * SECONDS
    hits = find_in_folder(os.fsencode(ring[0]), Question(since=at, until=at), CAUSE_OF).hits
    assert [hit.name for hit in hits] == ["part-07"]
    assert main(["profile", "find", "--at", "2023-11-14T22:20:50", "--captures", str(ring[0])]) == 0
    assert "to look at the first: zombiescope profile flame --from 25 --to 35 part-07" in capsys.readouterr().out


def test_each_capture_says_what_changed_against_the_usual(ring: Ring) -> None:
    folder, planted = ring
    plant = PLANTS[6]
    name, _ = planted[plant]
    document = read_document(read_beside(os.fsencode(folder / f"{name}.zscap")) or b"")
    assert document is not None
    if int(name[-2:]) >= 3:  # there was something to compare with
        assert "compact_zone" in [each["name"] for each in document["changed"]]


def test_the_answer_for_a_program(ring: Ring, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", "find", "--cause", "statistics", "--json", "--captures", str(ring[0])]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "zombiescope.profile-hits/1"
    assert document["captures"] == CAPTURES
    assert document["hits"][0]["capture"] == ring[1][PLANTS[1]][0]
    assert document["hits"][0]["core"] == 0
    assert document["hits"][0]["cores"] > 3 * document["hits"][0]["usual_cores"]


def test_a_capture_without_a_summary_is_summed_up_when_asked(ring: Ring, tmp_path: Path) -> None:
    folder, planted = ring
    name, _ = planted[PLANTS[0]]
    for path in folder.glob("*.zscap"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    hits = find_in_folder(os.fsencode(tmp_path), PLANTS[0].question, CAUSE_OF).hits
    assert hits[0].name == name


def test_what_a_summary_leaves_out_is_looked_for_in_the_capture(ring: Ring, tmp_path: Path) -> None:
    """A summary has no function that took little: that it is not named there does not say that it is not in the capture."""
    folder, planted = ring
    name, _ = planted[PLANTS[0]]
    for path in folder.glob("*.zscap"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
        summary = read_beside(os.fsencode(path)) or b""
        document = read_document(summary)
        assert document is not None
        document["taken"]["function"] = []
        (tmp_path / path.name).with_suffix(".summary").write_bytes(gzip.compress(json.dumps(document).encode()))
    found = find_in_folder(os.fsencode(tmp_path), PLANTS[0].question, CAUSE_OF)
    assert found.hits[0].name == name
    assert find_in_folder(os.fsencode(tmp_path), Question(function="no_such_function"), CAUSE_OF).hits == []


def test_the_names_of_a_capture_are_read_alone(ring: Ring) -> None:
    raw = next(ring[0].glob("*.zscap")).read_bytes()
    assert "vfs_read" in read_names(raw)
    for cut in (0, 5, 40, len(raw) // 2, len(raw) - 3):
        with pytest.raises(BrokenCapture):
            read_names(raw[:cut])


@pytest.mark.parametrize(
    "value", [10**400, float("nan"), float("inf"), -1e308, True, None, "x", [], {}], ids=lambda one: str(one)[:8]
)
def test_a_summary_with_numbers_that_cannot_be_ends_nobody(
    value: object, ring: Ring, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither a search nor a recorder, which learns from it what is usual."""
    folder = tmp_path / "ring"
    shutil.copytree(ring[0], folder)
    for path in list(folder.glob("*.summary"))[:5]:
        document = json.loads(gzip.decompress(path.read_bytes()))
        for rows in document["taken"].values():
            rows[:] = [["a name\nand another \x1b[2J", *[value] * (len(row) - 1)] for row in rows]
        document["moments"] = [dict.fromkeys(each, value) for each in document["moments"]]
        document |= {"seconds": value, "rate_hz": value, "kept": [{"kind": "x", "at": value, "words": "x"}]}
        path.write_bytes(gzip.compress(json.dumps(document).encode()))
    Summing(CAUSE_OF).know(held(os.fsencode(folder)))
    for words in (["find", "--ring"], ["find", "--ring", "--function", "a name*"], ["ring"]):
        assert main(["profile", *words, "--captures", str(folder)]) == 0
    told = capsys.readouterr().out
    assert "\x1b" not in told
    assert not [line for line in told.splitlines() if line.startswith("and another")]
