# SPDX-License-Identifier: Apache-2.0
"""What a command gives back to `main`: a JSON document or text for a person, and the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # rich is loaded only when text is drawn
    from rich.console import RenderableType


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
