# SPDX-License-Identifier: Apache-2.0
"""A page of `explain` and the list of all, for a person."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from rich.console import RenderableType
from rich.text import Text

from zombiescope.presenters.layout import Command, Prose

_PLURALS = {"finding": "findings", "pin": "kinds of pin", "metric": "metrics", "gap": "gaps"}
_TOLD = {
    "finding": "what `doctor` can find",
    "pin": "what keeps a zombie, as `autopsy` names it",
    "metric": "what the agent serves",
    "gap": "facts that may be missing, as `gaps` in JSON name them; * stands for anything",
}


class Page(Protocol):
    @property
    def word(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def rows(self) -> Sequence[tuple[str, str]]: ...
    @property
    def next(self) -> str: ...


def render_page(page: Page) -> list[RenderableType]:
    parts: list[RenderableType] = [Text(f"{page.word} ({page.kind}): {page.title}", style="bold")]
    for label, text in page.rows:
        if label:
            parts += [Text(), Text(label, style="dim")]
        parts.append(Prose(f"  {text}"))
    return [*parts, Text(), Command("next", page.next)]


def render_list(words: Mapping[str, Sequence[str]]) -> list[RenderableType]:
    counts = [f"{len(each)} {_PLURALS[kind]}" for kind, each in words.items()]
    parts: list[RenderableType] = [Text(f"{', '.join(counts[:-1])} and {counts[-1]} are explained", style="bold")]
    for kind, each in words.items():
        parts += [Text(), Text(f"{_PLURALS[kind]}: {_TOLD[kind]}", style="dim")]
        parts.append(Prose(f"  {'  '.join(each)}"))
    return [*parts, Text(), Command("to read one", "zombiescope explain WORD")]
