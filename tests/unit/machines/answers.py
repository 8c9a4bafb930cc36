# SPDX-License-Identifier: Apache-2.0
"""What every reading command says of one machine, as text and as a document: replayed, or as the golden files keep it."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from zombiescope.cli.main import main

TESTS = Path(__file__).resolve().parents[2]
GROUPS = ("maker", "pin", "file", "parent")
_BOTH: dict[str, tuple[str, ...]] = {
    "scan": ("scan",),
    "autopsy": ("autopsy", "--limit", "0"),
    "plan": ("plan", "--seconds", "1"),
    "cores": ("cores", "--seconds", "3"),
    "doctor": ("doctor", "--seconds", "3"),
    "check": ("check",),
}
_TEXT: dict[str, tuple[str, ...]] = {
    "explain": ("scan", "--explain"),
    **{f"by {group}": ("autopsy", "--by", group, "--limit", "1") for group in GROUPS},
}
_PROMPT = re.compile(r"^\$ zombiescope (\w+)(.*) --root \S+$", re.MULTILINE)


class Answers(NamedTuple):
    name: str
    texts: dict[str, str]
    """By command. A command that could not answer is not there."""
    documents: dict[str, dict[str, Any]]

    def said(self, command: str) -> str:
        """In one line: where it was folded does not matter."""
        return " ".join(self.texts.get(command, "").split())


def recordings() -> dict[str, Path]:
    machines = [file.parent for file in (TESTS / "machines").glob("**/MACHINE.toml")]
    packed = (TESTS / "scenarios").glob("**/*.tar.gz")
    return {each.name.removesuffix(".tar.gz"): each for each in sorted([*machines, *packed])}


def goldens() -> dict[str, Path]:
    return {file.stem if file.suffix == ".txt" else file.name: file for file in (TESTS / "golden/machines").iterdir()}


def asked(*arguments: str) -> tuple[int, str]:
    out = io.StringIO()
    width, os.environ["COLUMNS"] = os.environ.get("COLUMNS"), "300"
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
            code = main(list(arguments))
    finally:
        del os.environ["COLUMNS"]
        if width is not None:
            os.environ["COLUMNS"] = width
    return code, out.getvalue()


@cache
def replayed(name: str) -> Answers:
    root = ("--root", str(recordings()[name]))
    found = Answers(name, {}, {})
    for command, words in (_BOTH | _TEXT).items():
        _, text = asked(*words, *root)
        found.texts[command] = text
        if command in _BOTH:
            _, said = asked(*words, "--json", *root)
            found.documents[command] = json.loads(said)
    return found


@cache
def kept(name: str) -> Answers:
    """As its golden file has it."""
    text = goldens()[name].read_text(encoding="utf-8")
    found = Answers(name, {}, {})
    places = list(_PROMPT.finditer(text))
    for place, following in zip(places, [*places[1:], None], strict=True):
        said = text[place.end() : following.start() if following else len(text)].rpartition("exit ")[0]
        if "--json" in place[2] and said.lstrip().startswith("{"):
            found.documents[place[1]] = json.loads(said)
        elif "--json" not in place[2]:
            found.texts["explain" if "--explain" in place[2] else place[1]] = said
    return found
