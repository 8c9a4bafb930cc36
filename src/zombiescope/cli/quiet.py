# SPDX-License-Identifier: Apache-2.0
"""The last guard before a terminal: whatever a stranger's file brought into an answer is shown, never obeyed."""

from __future__ import annotations

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.text import Text

from zombiescope.facts.names import quiet_lines


class Quiet:
    """A part of an answer. Colours are styles here and become escapes later: those are ours."""

    def __init__(self, part: RenderableType) -> None:
        self._part = Text(part) if isinstance(part, str) else part

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._part, options):
            yield segment if segment.control else Segment(quiet_lines(segment.text), segment.style)
