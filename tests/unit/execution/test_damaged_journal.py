# SPDX-License-Identifier: Apache-2.0
"""A journal with damaged lines: nothing of them is obeyed, all else is taken back, and what is left is said."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.unit.execution.machine import FileMachine, build

from zombiescope.errors import UsageError
from zombiescope.execution.journal import Journal
from zombiescope.execution.moves import Hands
from zombiescope.execution.undo import undo_all
from zombiescope.pipeline import past_actions

FILE = {"path": "/etc/x", "before": {"kind": "absent"}, "content": ""}
GOOD: dict[str, Any] = {"do": "set_file_for_a_moment", "path": "/sys/knob", "before": "before", "value": "0"}
DAMAGED: list[dict[str, Any]] = [
    {"do": "of-a-later-release", "path": "/etc/x"},
    {"do": "place_file"},
    {"do": "place_file", **FILE, "path": 5},
    {"do": "place_file", **FILE, "path": "a\\x00b"},
    {"do": "place_file", **FILE, "path": "\ud800"},
    {"do": "place_file", **FILE, "before": {"kind": "file", "uid": 1 << 70}},
    {"do": "place_file", **FILE, "before": {"kind": "file", "xattrs": {"user.x": 5}}},
    {"do": "place_file", **FILE, "content": "\u00e4"},
    {"do": "place_link", **FILE},
    {"do": "delete_files", "files": 5},
    {"do": "delete_files", "files": [], "kept": 5},
    {"do": "rewrite_files", "files": ["/x"], "inodes": [[1, 2]], "aside": 7},
    {"do": "rewrite_files", "files": ["/x"], "inodes": []},
    {"do": "remove_segments", "segments": 5},
    {"do": "set_file", "path": "/sys/knob", "before": 1, "value": ""},
    {"do": "swap_in", "device": "/swap", "priority": 1 << 40},
    {"do": "stop_unit", "unit": 1.5},
    {"do": "flush", "path": 5},
    {"do": "drop_files", "files": 5},
]


def journal_of(folder: Path, *entries: dict[str, Any]) -> Path:
    (folder / "kept").mkdir(parents=True)
    lines = [json.dumps({"v": 1, "at": 1.0, **entry}) + "\n" for entry in entries]
    (folder / "journal.jsonl").write_text("".join(lines))
    return folder


@pytest.mark.parametrize("damaged", DAMAGED, ids=lambda entry: json.dumps(entry)[:60])
def test_the_rest_is_taken_back(tmp_path: Path, damaged: dict[str, Any]) -> None:
    root = build(tmp_path / "root")
    (root / "sys/knob").write_text("0")
    begin = {"entry": "begin", "root": str(root)}
    writes = [{"entry": "write", "seq": number, **entry} for number, entry in enumerate((GOOD, damaged), 1)]
    folder = journal_of(tmp_path / "state/actions/1", begin, *writes)
    hands = Hands(FileMachine(os.fsencode(root)), Journal(str(folder), lambda: 1.0))
    taken = {each.seq: each for each in undo_all(hands, has_systemd=True)}
    assert (taken[1].outcome, taken[2].outcome) == ("restored", "not-restored")
    assert "its line in the journal is damaged" in taken[2].why
    assert (root / "sys/knob").read_text() == "before"


@pytest.mark.parametrize("after", [5, "\u00e4", {"kind": "file", "uid": "x"}, []])
def test_what_was_there_after_a_change_may_be_damaged(tmp_path: Path, after: object) -> None:
    root = build(tmp_path / "root")
    place = {"entry": "write", "seq": 1, "do": "place_file", **FILE, "path": "/etc/made"}
    (root / "etc/made").write_text("")
    folder = journal_of(tmp_path / "state/actions/1", place, {"entry": "done", "seq": 1, "after": after})
    hands = Hands(FileMachine(os.fsencode(root)), Journal(str(folder), lambda: 1.0))
    assert [each.outcome for each in undo_all(hands, has_systemd=False)] == ["restored"]


@pytest.mark.parametrize("begin", [{"entry": "begun"}, {"entry": "begin", "root": 5}])
def test_a_journal_that_does_not_name_its_machine_is_not_obeyed(tmp_path: Path, begin: dict[str, Any]) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    journal_of(tmp_path / "state/actions/1", begin, {"entry": "write", "seq": 1, **GOOD})
    with pytest.raises(UsageError, match="which machine was changed"):
        past_actions.undo(str(tmp_path / "state"), "1", do=True)
