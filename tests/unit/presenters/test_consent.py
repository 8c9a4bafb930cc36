# SPDX-License-Identifier: Apache-2.0
"""What a person is asked before something goes for good."""

from __future__ import annotations

from io import StringIO

import pytest

from zombiescope.cli.commands.apply import _ask
from zombiescope.cli.progress import Stage
from zombiescope.presenters.plan_text import consent_lines
from zombiescope.remedies.plan import DeleteFiles, Expected, NamedFile, Risk, Step, Undo


def test_the_question_says_how_many_an_example_and_what_it_frees() -> None:
    files = tuple(NamedFile(b"/dev/shm/a/%d" % number, number) for number in range(40))
    step = Step(
        1, "delete:/dev/shm/a", "delete_shared_files", "delete 40 files in /dev/shm/a", DeleteFiles(files), "they pin",
        "pinned-shared-memory", Risk.HIGH, Undo.NONE, "zombiescope scan", Expected(40, 163_840, 40), needs_consent=True,
    )  # fmt: skip
    first, *rest = consent_lines(step)
    assert first == "delete 40 files in /dev/shm/a (risk high, cannot be undone)"
    assert [line.split()[0] for line in rest] == ["why", "files", "frees"]
    assert "/dev/shm/a/0" in rest[1]
    assert "40 zombies, 160 KiB" in rest[2]


def test_the_spinner_stands_aside_while_a_person_is_asked() -> None:
    class Status:
        def __init__(self) -> None:
            self.said: list[str] = []

        def start(self) -> None:
            self.said.append("start")

        def stop(self) -> None:
            self.said.append("stop")

        def update(self, what: str) -> None:
            self.said.append(what)

    status = Status()
    stage = Stage(status)  # type: ignore[arg-type]
    with stage.running():
        stage("looking")
        with stage.silent():
            status.said.append("asked")
    assert status.said == ["start", "looking", "stop", "asked", "start", "stop"]


def test_the_prompt_says_what_is_the_default(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Terminal(StringIO):
        def isatty(self) -> bool:
            return True

    files = tuple(NamedFile(b"/dev/shm/a/%d" % number, number) for number in range(40))
    step = Step(
        1, "delete:/dev/shm/a", "delete_shared_files", "delete 40 files in /dev/shm/a", DeleteFiles(files), "they pin",
        "pinned-shared-memory", Risk.HIGH, Undo.NONE, "zombiescope scan", Expected(40, 163_840, 40), needs_consent=True,
    )  # fmt: skip
    monkeypatch.setattr("sys.stderr", screen := Terminal())
    for typed, is_given in (("\n", False), ("y\n", True), ("n\n", False), ("", False)):
        monkeypatch.setattr("sys.stdin", Terminal(typed))
        assert _ask(step, Stage(None)) is is_given
    assert "delete 40 files in /dev/shm/a (risk high, cannot be undone)" in screen.getvalue()
    assert "Do it? [y/N]: " in screen.getvalue()
    monkeypatch.setattr("sys.stdin", StringIO("y\n"))
    assert not _ask(step, Stage(None)), "a program must have said so before"
    capsys.readouterr()
