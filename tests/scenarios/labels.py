# SPDX-License-Identifier: Apache-2.0
"""The labels of the scenarios: what the doctor must say of each. Written before the rules."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

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

    @property
    def answer(self) -> tuple[str, str, str]:
        return self.origin, self.maker, self.first_remedy


def read_labels() -> dict[str, Label]:
    data = tomllib.loads((FOLDER / "labels.toml").read_text(encoding="utf-8"))
    return {name: _label(name, **entry) for name, entry in data.items()}


def _label(name: str, *, present: list[str], absent: list[str], **said: str | bool) -> Label:
    return Label(name=name, present=tuple(present), absent=tuple(absent), **said)  # type: ignore[arg-type]
