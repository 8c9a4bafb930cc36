# SPDX-License-Identifier: Apache-2.0
"""An `apply` under attack: beside a neighbour who swaps names all the time, or at a terminal where a person is asked."""

from __future__ import annotations

import ctypes
import json
import os
import pty
import select
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from tests.hostile.graves import Graveyard
from tests.hostile.neighbour import INSTALLED, PATIENCE, Neighbour

EXCHANGE = 2
COUNT = 20
_libc = ctypes.CDLL(None, use_errno=True)


def fill(folder: Path, count: int = COUNT, size: int = 8192) -> None:
    folder.mkdir(exist_ok=True)
    for number in range(count):
        (folder / f"f{number}").write_bytes(os.urandom(size))


def words(graves: Graveyard, state: Path) -> list[str]:
    scope = ["--below", graves.name, "--seconds", "0", "--window", "0"]
    return ["apply", "--yes", *scope, "--state", str(state), "--json"]


def exchange(one: Path, other: Path) -> None:
    if _libc.renameat2(-100, os.fsencode(one), -100, os.fsencode(other), EXCHANGE):
        raise OSError(ctypes.get_errno(), "renameat2")


def contents(*folders: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for folder in folders for path in folder.iterdir()}


def steps_of(text: str) -> dict[str, dict[str, Any]]:
    return {step["name"]: step for step in json.loads(text)["steps"]} if text else {}


def swap_for_ever(pairs: list[tuple[Path, Path]]) -> None:
    """Hundreds of times while files are looked at, copied and deleted, and without taking a core from everybody else."""
    while True:
        for one, other in pairs:
            with suppress(OSError):
                exchange(one, other)
        time.sleep(0.001)


class Started(NamedTuple):
    """An apply that works while the next attack is prepared: each rests most of its time."""

    place: Path
    process: subprocess.Popen[str]
    neighbour: Neighbour
    before: dict[str, bytes]

    def ended(self) -> tuple[int, str, str]:
        out, said = self.process.communicate(timeout=PATIENCE)
        self.neighbour.end_all()
        return self.process.returncode, out, said


def start(place: Path, command: list[str], before: dict[str, bytes], prefix: tuple[str, ...] = ()) -> Started:
    call = [*prefix, str(INSTALLED), *command]
    process = subprocess.Popen(
        call, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    return Started(place, process, Neighbour(place / "neighbour"), before)


_QUESTION = b"Do it? [y/N]:"


def yes(_question: str) -> bool:
    return True


def no_rewriting(question: str) -> bool:
    """Deleting is consented to, keeping what is in the files is not."""
    return "rewrite " not in question


def answered(
    command: list[str], state: Path, attack: Callable[[], object], agrees: Callable[[str], bool] = yes
) -> tuple[int, str, str]:
    """Answers every question. Its journal begins when the plan is made; nothing is deleted before the first answer."""
    ours, theirs = pty.openpty()
    call = [str(INSTALLED), *command]
    with subprocess.Popen(call, stdin=theirs, stdout=subprocess.PIPE, stderr=theirs, text=True) as process:
        os.close(theirs)
        try:
            seen = Drain(ours, lambda: any(path.stat().st_size for path in state.glob("actions/*/journal.jsonl")))
            seen.until_so()
            attack()
            answered_to = 0
            while seen.reads():
                question, asked, _ = seen.said[answered_to:].partition(_QUESTION)
                if asked:
                    answered_to += len(question) + len(asked)
                    os.write(ours, b"y\n" if agrees(question.decode(errors="replace")) else b"n\n")
            assert process.stdout is not None
            out = process.stdout.read()
        finally:
            process.kill()
            os.close(ours)
    return process.returncode, out, seen.said.decode(errors="replace")


class Drain:
    """Reads what a command says to its terminal, so that it never waits for us."""

    def __init__(self, terminal: int, is_so: Callable[[], bool]) -> None:
        self.terminal, self.is_so, self.said = terminal, is_so, b""
        self._end = time.monotonic() + PATIENCE

    def until_so(self) -> None:
        while not self.is_so():
            assert self.reads(), self.said

    def reads(self) -> bool:
        """False once nobody can say anything any more."""
        assert time.monotonic() < self._end, self.said
        if not select.select([self.terminal], [], [], 0.05)[0]:
            return True
        try:
            part = os.read(self.terminal, 4096)
        except OSError:  # the last one has closed it
            return False
        self.said += part
        return bool(part)
