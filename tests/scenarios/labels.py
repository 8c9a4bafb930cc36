# SPDX-License-Identifier: Apache-2.0
"""The labels of the scenarios: what the doctor must say of each. Written before the rules."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent


class Label(NamedTuple):
    name: str
    why: str
    twin: str
    real: bool
    origin: str
    maker: str
    first_remedy: str
    present: tuple[str, ...]
    absent: tuple[str, ...]
    severity: str = ""
    held_out: bool = False
    """Made by somebody else than who wrote the rules, and not looked at while they were tuned."""

    @property
    def answer(self) -> tuple[str, str, str]:
        return self.origin, self.maker, self.first_remedy


class FirstAsked(NamedTuple):
    """What a file of held-out patients scored when the doctor was first asked about it."""

    right: int
    of: int
    note: str


def read_first_asked() -> dict[str, FirstAsked]:
    return {name: FirstAsked(**entry) for name, entry in _read(FOLDER / "first_asked.toml").items()}


def held_out_files() -> dict[str, int]:
    """With how many patients."""
    return {file.stem: len(_read(file)) for file in sorted(FOLDER.glob("held_out/*.toml"))}


def read_labels() -> dict[str, Label]:
    ours = _read(FOLDER / "labels.toml")
    theirs = [name for file in sorted(FOLDER.glob("held_out/*.toml")) for name in _read(file).items()]
    return {
        **{name: _label(name, **entry) for name, entry in ours.items()},
        **{name: _label(name, **entry)._replace(held_out=True) for name, entry in theirs},
    }


def _read(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text(encoding="utf-8"))


def _label(name: str, *, present: list[str], absent: list[str], **said: str | bool) -> Label:
    return Label(name=name, present=tuple(present), absent=tuple(absent), **said)  # type: ignore[arg-type]
