# SPDX-License-Identifier: Apache-2.0
"""`audit --against`: what changed since an audit that somebody accepted, and whether it is for the worse."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.unit.trees import CONFIG, SYSTEM, TARGETS, WANTED, enabled, plant

from zombiescope.cli.main import main

LOOPS = "[Service]\nExecStart=/opt/x\nRestart=always\nRestartSec=19\n[Install]\nWantedBy=multi-user.target\n"
BASE = {**TARGETS, **enabled("ssh.service", WANTED), **enabled("heron.service", WANTED)}


def run(capfd: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    status = main(["audit", *arguments])
    return status, capfd.readouterr().out


@pytest.fixture
def accepted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Path:
    _, out = run(capfd, "--root", str(plant(tmp_path / "before", BASE)), "--json", "--all")
    file = tmp_path / "accepted.json"
    file.write_text(out)
    return file


def changes(capfd: pytest.CaptureFixture[str], root: Path, accepted: Path) -> tuple[int, list[dict[str, Any]]]:
    status, out = run(capfd, "--root", str(root), "--against", str(accepted), "--json")
    return status, json.loads(out)["against"]["changes"]


def test_nothing_changed(tmp_path: Path, accepted: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = plant(tmp_path / "now", BASE)
    assert changes(capfd, root, accepted) == (0, [])
    assert "no service that starts has changed" in run(capfd, "--root", str(root), "--against", str(accepted))[1]


def test_a_new_agent_is_for_the_worse(tmp_path: Path, accepted: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = plant(tmp_path / "now", {**BASE, **enabled("gannet.service", LOOPS), **enabled("cron.service", WANTED)})
    status, found = changes(capfd, root, accepted)
    assert status == 1
    assert [(one["unit"], one["kind"], one["after"], one["is_worse"]) for one in found] == [
        ("gannet.service", "added", "unknown", True),
        ("cron.service", "added", "needed", False),
    ]
    status, out = run(capfd, "--root", str(root), "--against", str(accepted))
    assert status == 1
    assert "2 changes, 1 for the worse" in out
    assert "worse: gannet.service  starts now (unknown)" in out


def test_one_that_left_is_not(tmp_path: Path, accepted: Path, capfd: pytest.CaptureFixture[str]) -> None:
    root = plant(tmp_path / "now", {**TARGETS, **enabled("ssh.service", WANTED), f"{SYSTEM}/heron.service": WANTED})
    status, found = changes(capfd, root, accepted)
    assert (status, [(one["unit"], one["kind"]) for one in found]) == (0, [("heron.service", "removed")])


def test_a_drop_in_that_lets_it_loop(tmp_path: Path, accepted: Path, capfd: pytest.CaptureFixture[str]) -> None:
    drop_in = {f"{CONFIG}/ssh.service.d/9.conf": "[Service]\nRestart=always\nRestartSec=19\n"}
    status, found = changes(capfd, plant(tmp_path / "now", {**BASE, **drop_in}), accepted)
    assert status == 1
    assert [(one["field"], one["before"], one["after"], one["is_worse"]) for one in found] == [
        ("can_loop", False, True, True),
        ("restart_policy", "no", "always", False),
    ]


def test_a_tree_that_does_not_tell_is_unknown(
    tmp_path: Path, accepted: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "now").mkdir()
    assert run(capfd, "--root", str(tmp_path / "now"), "--against", str(accepted))[0] == 3


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"schema": "zombiescope.scan/1", "units": []}', '{"schema": "zombiescope.audit/1"}',
     '{"schema": "zombiescope.audit/1", "units": [3]}', "[" * 100_000],
)  # fmt: skip
def test_what_is_no_audit_is_refused(text: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "accepted.json"
    file.write_text(text)
    root = plant(tmp_path / "now", BASE)
    assert main(["audit", "--root", str(root), "--against", str(file)]) == 2
    assert "cannot compare with" in capfd.readouterr().err


def test_names_from_the_file_cannot_command_a_terminal(
    tmp_path: Path, accepted: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(accepted.read_text())
    document["units"][0]["name"] = "\x1b]0;x\x07\ud800.service"
    document["taken_at"] = "\x1b[2J"
    accepted.write_text(json.dumps(document))
    for form in ([], ["--json"]):
        status, out = run(
            capfd, "--root", str(plant(tmp_path / f"n{len(form)}", BASE)), "--against", str(accepted), *form
        )
        assert status in (0, 1)
        assert out
        assert not set(out) & {"\x1b", "\x07"}
