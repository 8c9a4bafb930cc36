# SPDX-License-Identifier: Apache-2.0
"""A page of `explain` and the list of all, for a person."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from rich.console import RenderableType
from rich.markdown import Markdown
from rich.text import Text

from zombiescope.presenters.layout import Command, Prose

_PLURALS = {"page": "pages", "finding": "findings", "pin": "kinds of pin", "metric": "metrics", "gap": "gaps"}
_TOLD = {
    "page": "what to do with a sick node, step by step; which cure fits which symptom",
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


_COMMENT = re.compile(r"<!--.*?-->\n*", re.DOTALL)
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")


def render_document(markdown: str, next_command: str) -> list[RenderableType]:
    """A page of the documentation. A link leads nowhere on a node without a network: its words stay."""
    title, _, body = _LINK.sub(r"\1", _COMMENT.sub("", markdown)).partition("\n")
    heading = Text(title.removeprefix("# "), style="bold")
    return [heading, Text(), Markdown(body.strip(), hyperlinks=False), Text(), Command("next", next_command)]


def render_list(words: Mapping[str, Sequence[str]]) -> list[RenderableType]:
    counts = [f"{len(each)} {_PLURALS[kind]}" for kind, each in words.items()]
    parts: list[RenderableType] = [Text(f"{', '.join(counts[:-1])} and {counts[-1]} are explained", style="bold")]
    for kind, each in words.items():
        parts += [Text(), Text(f"{_PLURALS[kind]}: {_TOLD[kind]}", style="dim")]
        parts.append(Prose(f"  {'  '.join(each)}"))
    return [*parts, Text(), Command("to read one", "zombiescope explain WORD")]
