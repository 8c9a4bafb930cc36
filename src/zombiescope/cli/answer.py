# SPDX-License-Identifier: Apache-2.0
"""What a command gives back to `main`: a JSON document or text for a person, and the exit code."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

if TYPE_CHECKING:  # rich is loaded only when text is drawn
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult


class Next(NamedTuple):
    """What to type next, and what for. For a file or a program it needs no drawing; on a terminal it is drawn as `Command` is."""

    why: str
    command: str

    def __str__(self) -> str:
        return f"{self.why}: {self.command}"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from zombiescope.presenters.layout import Command  # noqa: PLC0415 (drawing is loaded only when it is needed)

        return Command(self.why, self.command).__rich_console__(console, options)


class JsonAnswer(NamedTuple):
    document: dict[str, Any]
    exit_code: int = 0


class TextAnswer(NamedTuple):
    parts: Sequence[RenderableType]
    exit_code: int = 0


class PlainAnswer(NamedTuple):
    """Text for a program: printed as it is."""

    text: str
    exit_code: int = 0


Answer = JsonAnswer | TextAnswer | PlainAnswer


def standard_output() -> TextIO:
    """Raises OSError where it was closed before we began."""
    if sys.stdout is None:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))
    return sys.stdout
