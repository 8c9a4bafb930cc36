# SPDX-License-Identifier: Apache-2.0
"""`doctor` in its written forms, and what it says when it is asked for what cannot be."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.build import Cgroup, v1_machine, write_machine
from tests.scenarios.asked import RECORDED

from zombiescope.cli.main import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def root(tmp_path: Path) -> str:
    return write_machine(tmp_path / "host", v1_machine({b"/a<b>": Cgroup(zombies=1500)})).decode()


def test_a_page_is_written_beside_the_text(root: str, tmp_path: Path, capsys: Capture) -> None:
    page = tmp_path / "report.html"
    assert main(["doctor", "--root", root, "--html", str(page)]) == 0
    out = capsys.readouterr().out
    assert "zombies: 1,500 dead memory cgroups" in out
    assert "report.html" in "".join(out.split())
    text = page.read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert "1,500 dead memory cgroups" in text


def test_a_ticket_is_markdown_alone(root: str, capsys: Capture) -> None:
    assert main(["doctor", "--root", root, "--markdown"]) == 0
    assert capsys.readouterr().out.startswith("# zombies: 1,500 dead memory cgroups")


def test_a_page_that_cannot_be_written_is_an_error(root: str, tmp_path: Path, capsys: Capture) -> None:
    assert main(["doctor", "--root", root, "--html", str(tmp_path / "none" / "report.html")]) == 2
    told = capsys.readouterr().err
    assert "no such file or directory" in told
    assert "Traceback" not in told


def test_events_are_read_and_a_bad_line_is_named(root: str, tmp_path: Path, capsys: Capture) -> None:
    events = tmp_path / "failures"
    events.write_text("1700000000 job 1 failed\n")
    assert main(["doctor", "--root", root, "--events", str(events), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["correlations"] == []
    events.write_text("1700000000 fine\nyesterday\n")
    assert main(["doctor", "--root", root, "--events", str(events)]) == 2
    assert "line 2" in capsys.readouterr().err
    assert main(["doctor", "--root", root, "--events", str(tmp_path / "none")]) == 2


def test_a_cluster_that_cannot_be_asked_is_a_gap_beside_everything_else(
    root: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert main(["doctor", "--root", root, "--events", "kubernetes", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert "this is no pod" in next(gap["reason"] for gap in told["gaps"] if gap["fact"] == "timeline.events")
    assert [each["verdict"] for each in told["findings"] if each["id"] == "zombie-population"] == ["present"]


@pytest.mark.parametrize("age", ["soon", "-5", "0", "infinity"])
def test_an_age_that_is_none_is_refused(root: str, age: str, capsys: Capture) -> None:
    assert main(["doctor", "--root", root, f"--since={age}"]) == 2
    assert "90s, 15m, 2h" in capsys.readouterr().err


def test_a_history_that_is_not_there_is_a_gap(root: str, tmp_path: Path, capsys: Capture) -> None:
    state = str(tmp_path / "none")
    assert main(["doctor", "--root", root, "--since", "2h", "--state", state, "--json"]) == 0
    gaps = {gap["fact"]: gap["reason"] for gap in json.loads(capsys.readouterr().out)["gaps"]}
    assert gaps["timeline"] == "there is no such folder"


def test_two_forms_at_once_are_refused(root: str, capsys: Capture) -> None:
    assert main(["doctor", "--root", root, "--json", "--markdown"]) == 2
    assert "choose one" in capsys.readouterr().err


def test_a_recording_of_a_real_machine_gives_the_doctor_its_answer_and_the_plan_its_steps(capsys: Capture) -> None:
    """300 zombies of a 6.1 kernel on v2, held by files on a tmpfs."""
    bundle = str(RECORDED["tmpfs"])
    assert main(["doctor", "--root", bundle, "--seconds", "3", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["origin"], told["first_remedy"]) == ("pinned-shared-memory", "delete-file")
    assert told["plan"] is None
    assert "cannot be mended" in {gap["fact"]: gap["reason"] for gap in told["gaps"]}["plan"]
    assert main(["plan", "--root", bundle, "--below", "/zombiescope-lab/scenario", "--json"]) == 0
    (keep, step, *_) = json.loads(capsys.readouterr().out)["steps"]
    assert keep["change"] == {**step["change"], "kind": "rewrite_files"}
    assert step["change"]["kind"] == "delete_files"
    assert 290 <= step["expected"]["zombies_freed"] <= 300
