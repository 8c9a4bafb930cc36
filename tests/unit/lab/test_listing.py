# SPDX-License-Identifier: Apache-2.0
"""`lab list`: the runs that are there with what they made, and every kind that can be made. It changes nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.nobody import as_nobody

from zombiescope.cli.main import main
from zombiescope.lab import cleaning, truth
from zombiescope.lab.cleaning import Seen, list_runs
from zombiescope.lab.processes import boot_id, start_time
from zombiescope.lab.runs import KINDS, PINS, list_kinds

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:

    monkeypatch.setattr(truth, "_KEEPERS", (str(tmp_path / "lab"),))
    monkeypatch.setattr(cleaning, "find_runs", lambda _: ["r1", "r2", "r3"])
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    me = {
        "intent": "process",
        "role": "command",
        "pid": os.getpid(),
        "start": start_time(os.getpid()),
        "boot": boot_id(),
    }
    for name, line in (("r1", {**me, "start": 1}), ("r2", me)):
        folder = tmp_path / "lab" / name
        folder.mkdir(parents=True, mode=0o700)
        plant(folder / "journal.jsonl", json.dumps(line))
    (tmp_path / "lab").chmod(0o700)
    plant(
        tmp_path / "lab/r1/truth.json",
        json.dumps({"action": "zombies", "counts": {"made": 50, "by_pin": {"tmpfs": 50}}}),
    )
    return tmp_path / "lab"


def plant(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)


def test_what_each_run_made_and_who_works_on_it(runs: Path, capsys: Capture) -> None:
    del runs
    if os.stat("/proc/self").st_uid != 0:
        pytest.skip("folders that are root's alone need root")
    assert list_runs() == [
        Seen("r1", "zombies", 50, {"tmpfs": 50}, at_work=False),
        Seen("r2", None, None, {}, at_work=True),
        Seen("r3", None, None, {}, at_work=False),
    ]
    assert main(["lab", "list"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "3 runs of the lab on this host"
    assert said[1] == "  r1   zombies: 50 made (50 tmpfs)"
    assert said[2].endswith("a command is working on it")
    assert said[-1] == "to remove them: zombiescope lab clean"
    assert main(["lab", "list", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["schema"], found["action"], len(found["runs"])) == ("zombiescope.lab/1", "list", 3)
    assert {gap["fact"] for gap in found["gaps"]} == {"runs[].action", "runs[].made"}


def test_every_kind_is_told() -> None:
    assert all(PINS.values())
    assert [each["kind"] for each in list_kinds()] == list(KINDS)


def test_without_root_the_kinds_are_listed_and_the_runs_are_a_gap(capsys: Capture) -> None:
    main(["lab", "list"])
    capsys.readouterr()
    code, out, err = as_nobody(lambda: main(["lab", "list"]))
    assert (code, err) == (0, "")
    assert out.startswith("runs: unknown: the lab's folders are root's\n")
    assert "page-cache" in out
    assert out.splitlines()[-1] == "to see the runs: sudo zombiescope lab list"
