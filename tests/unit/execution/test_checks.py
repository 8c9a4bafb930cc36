# SPDX-License-Identifier: Apache-2.0
"""What `verify` found is kept beside the journal: the last few, whole or not at all, and a damaged file tells nothing."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from zombiescope.execution.checks import FILE, keep_check, read_checks
from zombiescope.execution.journal import Journal
from zombiescope.facts.cgroups import Identity
from zombiescope.pipeline.past_actions import past_actions
from zombiescope.presenters.actions import render_actions
from zombiescope.presenters.document import null_fields

SIDE = {"value": 3, "seconds": 600.0, "source": "window"}
ROW = {"what": "zombies", "unit": "at the end", "before": SIDE, "after": {**SIDE, "value": None}, "verdict": "better"}


def check(at: float, verdict: str = "held", **more: Any) -> dict[str, Any]:
    return {"at": at, "action": "x", "verdict": verdict, "why": "none more in 600 s", "rows": [ROW], **more}


@pytest.fixture
def folder(tmp_path: Path) -> str:
    place = tmp_path / "state" / "actions" / "20261118T094730-342e1e"
    journal = Journal(str(place), lambda: 1.7e9)
    journal.add("begin", root="", boot_id="b")
    journal.close()
    return str(place)


def test_the_last_ten_are_kept_the_newest_last(folder: str) -> None:
    assert read_checks(folder) == ()
    for number in range(13):
        keep_check(folder, check(float(number)))
    assert [each["at"] for each in read_checks(folder)] == [float(number) for number in range(3, 13)]
    assert os.stat(os.path.join(folder, FILE)).st_mode & 0o777 == 0o600


def test_actions_tell_whether_it_held(folder: str) -> None:
    state = folder.partition("/actions/")[0]
    who = Identity(None, None, None, None)
    told = render_actions("s", 1, past_actions(state).actions, past_actions(state)._replace(identity=who))
    assert told["actions"][0]["verify"] is None
    assert "nobody has checked" in next(gap["reason"] for gap in told["gaps"] if gap["fact"] == "actions[].verify")
    keep_check(folder, check(1.7e9, "inconclusive"))
    keep_check(folder, check(1.7e9 + 60))
    told = render_actions("s", 1, past_actions(state).actions, past_actions(state)._replace(identity=who))
    found = told["actions"][0]
    assert (found["verify"]["verdict"], found["verify"]["at"]) == ("held", "2023-11-14T22:14:20.000Z")
    assert [each["verdict"] for each in found["checks"]] == ["inconclusive", "held"]
    assert set(null_fields({"actions": told["actions"]})) <= {gap["fact"] for gap in told["gaps"]}


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b'{"v":1}',
        b'{"v":1,"checks":5}',
        b'{"v":1,"checks":[{"at":"x"}]}',
        b"[" * 100_000,
        b"\xff",
        json.dumps({"v": 1, "checks": [check(1.0, "excellent"), check(2.0, rows=[{}]), check(3.0, rows=5)]}).encode(),
    ],
)
def test_a_damaged_file_tells_nothing_and_is_replaced(folder: str, content: bytes) -> None:
    Path(folder, FILE).write_bytes(content)
    assert read_checks(folder) == ()
    keep_check(folder, check(9.0))
    assert [each["at"] for each in read_checks(folder)] == [9.0]


def test_a_later_version_is_left_alone(folder: str) -> None:
    Path(folder, FILE).write_text('{"v":2,"checks":[]}')
    with pytest.raises(OSError, match="later version"):
        keep_check(folder, check(9.0))
    assert read_checks(folder) == ()
    assert Path(folder, FILE).read_text() == '{"v":2,"checks":[]}'


def test_no_link_is_followed(folder: str, tmp_path: Path) -> None:
    aim = tmp_path / "aim"
    aim.write_text("mine")
    Path(folder, FILE).symlink_to(aim)
    assert read_checks(folder) == ()
    keep_check(folder, check(9.0))
    assert aim.read_text() == "mine"
    assert not Path(folder, FILE).is_symlink()
