# SPDX-License-Identifier: Apache-2.0
"""The one block that says what is not known: in plain words, a line for each reason, with what would help."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.text import Text

from zombiescope.facts.gap import Gap
from zombiescope.presenters.layout import Block
from zombiescope.presenters.plain_words import gap_subject

_NAMED = 3
_MOST = 8


def unknown_lines(gaps: Iterable[Gap]) -> list[str]:
    """Gaps with the same reason share a line."""
    reasons: dict[tuple[str, str], dict[str, None]] = {}
    for gap in gaps:
        reasons.setdefault((gap.reason, gap.hint), {})[gap_subject(gap.fact)] = None
    return [
        f"{listed(list(subjects))}: {reason}" + (f" ({hint})" if hint else "")
        for (reason, hint), subjects in reasons.items()
    ]


def listed(names: list[str], most: int = _NAMED) -> str:
    """`a, b and 4 more`."""
    if len(names) > most + 1:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def unknown_block(gaps: Iterable[Gap], more: Iterable[str] = ()) -> list[RenderableType]:
    """Empty where nothing is unknown."""
    lines = [*more, *unknown_lines(gaps)]
    if not lines:
        return []
    shown = lines[:_MOST]
    if len(lines) > _MOST:
        shown.append(f"and {len(lines) - _MOST} more (--json lists all)")
    return [Text(), Block("unknown", (Text(line, style="dim") for line in shown))]
