# SPDX-License-Identifier: Apache-2.0
"""`zombiescope self-check`: every part answers on any host, says how or why not, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest
from tests.build import Cgroup, v2_machine, write_machine

from zombiescope.cli.main import main
from zombiescope.errors import ObservationError
from zombiescope.facts.gap import Gap
from zombiescope.facts.self_check import CheckedPart, PartStatus, SelfCheck
from zombiescope.host.live import TreeHost, choose_host
from zombiescope.pipeline import self_check
from zombiescope.pipeline.self_check import check_self, try_agent, try_history
from zombiescope.presenters.document import null_fields
from zombiescope.presenters.self_check_text import render_self_check

Capture = pytest.CaptureFixture[str]
NOWHERE = ("", "")


@pytest.fixture
def folder(tmp_path: Path) -> SelfCheck:
    """A recorded machine: no kernel to ask."""
    write_machine(tmp_path / "machine", v2_machine({b"/a": Cgroup(zombies=3)}))
    return check_self(choose_host(os.fsencode(tmp_path / "machine")), *NOWHERE)


def test_a_folder_can_be_counted_and_not_walked(folder: SelfCheck) -> None:
    assert folder.part("files").status is PartStatus.WORKS
    for name in ("exact", "kcore", "pages", "events", "sampler", "softirq", "reclaim"):
        part = folder.part(name)
        assert (part.by, part.status) == (None, PartStatus.NO)
        assert part.gap is not None and part.gap.reason


def test_every_null_has_its_gap(folder: SelfCheck) -> None:
    told = render_self_check(folder)
    body = {name: value for name, value in told.items() if name != "gaps"}
    assert set(null_fields(body)) <= {gap["fact"] for gap in told["gaps"]}
    assert told["schema"] == "zombiescope.self-check/1"


def test_nothing_mounted_is_three_with_every_part_told(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "machine").mkdir()
    host = TreeHost(os.fsencode(tmp_path / "machine"))
    monkeypatch.setattr("zombiescope.cli.commands.self_check.open_host", lambda root: host)
    assert main(["self-check"]) == 3
    assert capsys.readouterr().out.startswith("zombies cannot be counted; ")
    found = check_self(host, *NOWHERE)
    assert found.part("files").by is None
    assert all(part.gap is not None for part in found.parts if part.by is None)


def test_a_refusal_of_one_part_is_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refused(*_: object) -> int:
        raise ObservationError("cannot", "the kernel said no", "ask it nicely")

    def broken(*_: object) -> int:
        raise PermissionError(13, "Permission denied", "/proc/some")

    monkeypatch.setattr(self_check, "try_zombie_walk", refused)
    monkeypatch.setattr(self_check, "try_page_frames", broken)
    write_machine(tmp_path / "machine", v2_machine({b"/a": Cgroup()}))
    found = check_self(choose_host(os.fsencode(tmp_path / "machine")), *NOWHERE)
    assert found.part("exact").gap == Gap("parts.exact.by", "the kernel said no", "ask it nicely")
    assert found.part("pages").gap == Gap("parts.pages.by", "/proc/some: permission denied")
    assert found.part("files").status is PartStatus.WORKS


def test_partly_is_told_with_how_and_why() -> None:
    part = CheckedPart("events", "births", ("top",), "polling", Gap("parts.events.status", "no right"))
    assert part.status is PartStatus.PARTLY


def test_the_command_answers_first_and_says_what_to_type_last(
    tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_machine(tmp_path / "machine", v2_machine({b"/a": Cgroup(zombies=3)}))
    host = choose_host(os.fsencode(tmp_path / "machine"))
    monkeypatch.setattr("zombiescope.cli.commands.self_check.open_host", lambda root: host)
    monkeypatch.setenv("COLUMNS", "100")
    assert main(["self-check"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "parts work fully on this host" in lines[0]
    assert lines[-1] == "to count the zombies: zombiescope scan"
    assert main(["self-check", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["build"]["kind"] == "python"
    assert set(told["parts"]) >= {"files", "exact", "kcore", "pages", "events", "sampler", "agent", "history"}


def test_the_port_is_told_free_or_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        taken_by = try_agent(address)
        assert isinstance(taken_by, tuple) and not isinstance(taken_by, Gap)
        assert taken_by[0] == "the port is taken"
        assert "in use" in taken_by[1].reason
    assert try_agent("127.0.0.1:0") == "the port is free"
    assert isinstance(try_agent("no address"), Gap)
    assert isinstance(try_agent(""), Gap)
    assert isinstance(try_agent("192.0.2.1:9"), Gap), "an address that is not ours"


def test_the_state_folder_is_not_made(tmp_path: Path) -> None:
    missing = tmp_path / "a" / "b"
    assert try_history(str(missing)) == f"an agent would make the folder, in {tmp_path}"
    assert list(tmp_path.iterdir()) == []
    assert isinstance(try_history(""), Gap)
    own = tmp_path / "own"
    own.mkdir(mode=0o700)
    assert try_history(str(own)) == "the folder can be written"
    own.chmod(0o777)
    assert isinstance(try_history(str(own)), Gap), "others can write to it: an agent refuses it"
