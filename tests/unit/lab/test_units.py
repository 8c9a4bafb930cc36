# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from zombiescope.errors import ActionFailedError, ObservationError
from zombiescope.lab import processes


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(processes, "FOLDER", str(tmp_path))
    monkeypatch.setattr(processes, "_DROP_INS", (str(tmp_path), str(tmp_path / "etc")))
    return tmp_path


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    words: list[tuple[str, ...]] = []

    def systemctl(*given: str) -> str:
        words.append(given)
        return ""

    monkeypatch.setattr(processes, "systemctl", systemctl)
    return words


def test_a_slice_is_one_level_whatever_the_run_is_called() -> None:
    assert processes.slice_of("test-1-a") == "zombiescope_lab_test_1_a.slice"


def test_units_are_written_started_and_gone_without_a_trace(folder: Path, asked: list[tuple[str, ...]]) -> None:
    processes.start_anchor("r1")
    processes.start_agent("r1", "/dev/shm/zombiescope-lab/r1/tmpfs")
    agent = folder / "zombiescope-lab-r1-unused-agent.service"
    assert "Slice=zombiescope_lab_r1.slice\n" in agent.read_text()
    assert ">/dev/shm/zombiescope-lab/r1/tmpfs/life-$$$$;" in agent.read_text()
    assert ("start", "--no-block", agent.name) in asked
    assert processes.runs_with_units() == {"r1"}
    drop_in = folder / "etc" / f"{agent.name}.d"
    drop_in.mkdir(parents=True)
    (drop_in / "limit.conf").write_text("[Unit]\n")
    (folder / "etc" / "ssh.service").write_text("somebody else's")
    processes.stop_agent("r1")
    processes.remove_units("r1")
    assert [path.name for path in folder.rglob("*") if path.is_file()] == ["ssh.service"]
    assert not drop_in.exists()
    assert asked[-1] == ("daemon-reload",)


def test_where_there_is_none_nothing_is_asked(folder: Path, asked: list[tuple[str, ...]]) -> None:
    (folder / "zombiescope-lab-NOT A RUN-anchor.service").write_text("")
    assert processes.runs_with_units() == set()
    processes.stop_agent("r1")
    processes.remove_units("r1")
    assert asked == []


def test_without_systemd_it_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "FOLDER", str(folder / "absent"))
    assert processes.runs_with_units() == set()
    with pytest.raises(ObservationError, match="systemd is not the first process"):
        processes.require_systemd()


def test_what_systemd_says_is_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "systemctl"
    program.write_text("#!/bin/sh\necho 'Unit x not loaded.' >&2\nexit 5\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ActionFailedError, match=r"Unit x not loaded\."):
        processes.systemctl("stop", "x")
