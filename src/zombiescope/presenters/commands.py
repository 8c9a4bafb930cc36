# SPDX-License-Identifier: Apache-2.0
"""Command lines for a person to copy: every word quoted for a shell, once for all forms of an answer."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import NamedTuple


class Asked(NamedTuple):
    """How the plan was asked for: what does it must be asked for in the same way."""

    maker: str | None = None
    below: str | None = None
    root: str | None = None
    """The root folder of an image."""
    is_elsewhere: bool = False
    """It was made from a recording: it is to be done on the host that was recorded."""
    zombie: int | None = None
    is_root: bool = True
    recording: str | None = None
    """The one it was made from."""


HERE = Asked()


def quoted(word: str) -> str:
    """For a shell, and without quotes where it needs none."""
    return shlex.quote(word)


def apply_command(consents: Iterable[str], asked: Asked = HERE, *, really: bool) -> str:
    """Without `really` it is a dry run."""
    zombie = None if asked.zombie is None else str(asked.zombie)
    options = [("maker", asked.maker), ("below", asked.below), ("zombie", zombie), ("root", asked.root)]
    options += [("consent", name) for name in consents]
    given = "".join(f" --{option} {quoted(value)}" for option, value in options if value is not None)
    return f"zombiescope apply{' --yes' if really else ''}{given}"
