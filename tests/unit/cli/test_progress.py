# SPDX-License-Identifier: Apache-2.0
"""Long waits say what they do, to a person at a terminal and to nobody else; what is told is folded between words."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest

from zombiescope.cli import progress

WAIT = """
import sys
from zombiescope.cli.progress import running_shown, tell, window_shown
with window_shown(2.0, "watching this host", "making a plan") as told:
    for done in (0.5, 2.0):
        told(done)
with running_shown("sampling every core", None) as told:
    told(7.0)
tell("  why: " + "a sentence of many words that does not fit into one line of a terminal, " * 3)
"""


def at_a_terminal(program: str, columns: int) -> str:
    """What a person sees, without the escapes that draw it."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "COLUMNS": str(columns), "TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-c", program], stderr=theirs, stdout=theirs, stdin=theirs, env=env
    ) as child:
        os.close(theirs)
        said = b""
        try:
            while piece := os.read(ours, 65536):
                said += piece
        except OSError:  # the other end is closed: it has ended
            pass
        assert child.wait() == 0
    os.close(ours)
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", said.decode()).replace("\r", "\n")


def test_a_wait_says_what_is_done_and_then_what_comes_after() -> None:
    said = at_a_terminal(WAIT, 60)
    assert said.index("watching this host") < said.index("making a plan") < said.index("sampling every core for 7 s")
    why = said[said.index("  why:") :].strip("\n")
    assert all(len(line) <= 60 and line.startswith("  ") for line in why.splitlines() if line)
    assert "".join(why.split()).count("asentenceofmanywordsthatdoesnotfitintoonelineofaterminal,") == 3


def test_nobody_who_does_not_watch_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with progress.window_shown(2.0, "watching this host") as told:
        told(1.0)
    with progress.running_shown("sampling every core", None) as told:
        told(1.0)
    assert capsys.readouterr() == ("", "")
    progress.tell("  why: it is one line for a program, however long " + "x" * 300)
    assert capsys.readouterr().err.count("\n") == 1
