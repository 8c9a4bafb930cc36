# SPDX-License-Identifier: Apache-2.0
"""A page of `explain` and the list of all, for a person."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
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


_TABLE = re.compile(r"^\|(.*)\|\n\|[-|: ]+\|\n((?:\|.*\|\n?)+)", re.MULTILINE)
_LEAST_TABLE = 72
"""Columns of a terminal: below, a table's words would break."""


def render_document(markdown: str, next_command: str) -> list[RenderableType]:
    """A page of the documentation. A link leads nowhere on a node without a network: its words stay."""
    title, _, body = _LINK.sub(r"\1", _COMMENT.sub("", markdown)).partition("\n")
    heading = Text(title.removeprefix("# "), style="bold")
    return [heading, Text(), _Pages(body.strip()), Text(), Command("next", next_command)]


class _Pages:
    """Markdown; in a narrow terminal each row of a table is a list of its own."""

    def __init__(self, markdown: str) -> None:
        self._markdown = markdown

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        text = _TABLE.sub(_listed, self._markdown) if options.max_width < _LEAST_TABLE else self._markdown
        try:
            from rich.markdown import Markdown  # noqa: PLC0415
        except ImportError:  # the one-file build leaves it out; Markdown can be read as it stands
            yield from (Prose(line) if line else Text() for line in text.splitlines())
            return
        yield Markdown(text, hyperlinks=False)


def _listed(table: re.Match[str]) -> str:
    heads = [cell.strip() for cell in table[1].split("|")]
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in table[2].strip().splitlines()]
    return "\n".join(
        f"**{row[0]}**\n\n" + "".join(f"- {head}: {cell}\n" for head, cell in zip(heads[1:], row[1:], strict=True))
        for row in rows
    )


def render_list(words: Mapping[str, Sequence[str]]) -> list[RenderableType]:
    counts = [f"{len(each)} {_PLURALS[kind]}" for kind, each in words.items()]
    parts: list[RenderableType] = [Text(f"{', '.join(counts[:-1])} and {counts[-1]} are explained", style="bold")]
    for kind, each in words.items():
        parts += [Text(), Text(f"{_PLURALS[kind]}: {_TOLD[kind]}", style="dim")]
        parts.append(Prose(f"  {'  '.join(each)}"))
    return [*parts, Text(), Command("to read one", "zombiescope explain WORD")]
