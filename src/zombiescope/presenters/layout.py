# SPDX-License-Identifier: Apache-2.0
"""Lines and tables for a person at any width: words stay whole and nothing passes the edge. A name that is longer than a line is
cut at its joints (`/`, `.`, `-`); a command goes on behind a backslash, so that it can be pasted as it stands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from zombiescope.facts.gap import Gap
from zombiescope.presenters.figures import gap_subject

LABEL_WIDTH = 10
_JOINT = re.compile(r"[^/._:@=,|-]*(?:[/._:@=,|-]+|$)")
_WORD = re.compile(r"\S+")
_ARGUMENT = re.compile(r"(?:'[^']*'|\"[^\"]*\"|\\.|[^\s'\"\\])+")
_LEAST_WIDTH = 8
_ON = " \\"


def pieces(word: str, width: int) -> list[str]:
    """A word in parts that fit: cut at its joints, and elsewhere only where a part is itself longer than the line."""
    found = [""]
    for match in _JOINT.finditer(word):
        part = match[0]
        if found[-1] and cell_len(found[-1] + part) > width:
            found.append("")
        while cell_len(found[-1] + part) > width:
            found[-1], part = part[: _fitting(part, width)], part[_fitting(part, width) :]
            found.append("")
        found[-1] += part
    return [each for each in found if each]


def _fitting(text: str, width: int) -> int:
    """How many characters of it fit, one at least."""
    taken = 0
    for number, character in enumerate(text):
        taken += cell_len(character)
        if taken > width:
            return max(number, 1)
    return len(text)


def spans(text: str, width: int) -> list[tuple[int, int]]:
    """Where each line begins and ends. Blanks at a break are dropped; those inside a line stay."""
    found: list[tuple[int, int]] = []
    start: int | None = None
    end = 0
    for match in _WORD.finditer(text):
        if start is not None and cell_len(text[start : match.end()]) <= width:
            end = match.end()
            continue
        if start is not None:
            found.append((start, end))
        start, end = match.span()
        for part in pieces(match[0], width)[:-1]:
            found.append((start, start + len(part)))
            start += len(part)
    return found if start is None else [*found, (start, end)]


def wrapped(text: Text, width: int) -> list[Text]:
    """Lines of at most this width; an empty text is one empty line."""
    lines: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        plain = line.plain
        found = spans(plain, max(width, _LEAST_WIDTH))
        if found and cell_len(plain.rstrip()) <= width:
            found = [(0, len(plain.rstrip()))]
        lines += [line[begin:end] for begin, end in found] or [Text()]
    return lines


def longest_piece(text: str) -> int:
    """What a column must have at least, so that no word of this text is broken between two letters."""
    return max((cell_len(match[0]) for match in _JOINT.finditer(text.replace(" ", "/")) if match[0]), default=0)


class Prose:
    """Sentences. What stands before the first letter (blanks) stands before every line."""

    def __init__(self, text: Text | str, style: str = "") -> None:
        self.text = Text(text, style=style) if isinstance(text, str) else text

    def __str__(self) -> str:
        return self.text.plain

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        if options.no_wrap:
            yield self.text
            return
        margin = len(self.text.plain) - len(self.text.plain.lstrip(" "))
        for line in wrapped(self.text[margin:] if margin else self.text, options.max_width - margin):
            yield Text(" " * margin).append_text(line) if margin and line else line


class Command:
    """What to type, and what for: on one line where it fits, else below."""

    def __init__(self, why: str, command: str) -> None:
        self.why, self.command = why, command

    def __str__(self) -> str:
        return f"{self.why}: {self.command}"

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        yield from command_lines(self, options.max_width, is_one=bool(options.no_wrap))


def command_lines(asked: Command, width: int, *, is_one: bool = False) -> list[Text]:
    whole = Text(f"{asked.why}: ").append(asked.command, style="bold")
    if is_one or cell_len(whole.plain) <= width:
        return [whole]
    return [
        *wrapped(Text(f"{asked.why}:"), width),
        *(Text(each, style="bold") for each in folded_command(asked.command, width)),
    ]


def folded_command(command: str, width: int) -> list[str]:
    """The same command for a shell, on several lines."""
    lines: list[str] = []
    line = " "
    for match in _ARGUMENT.finditer(command):
        word = match[0]
        if cell_len(f"{line} {word}") <= width - len(_ON):
            line = f"{line} {word}"
            continue
        if line.strip():
            lines.append(line + _ON)
        *first, line = [f"   {word}"] if cell_len(word) <= width - 5 else _cut(word, width)
        lines += first
    return [*lines, line]


def _cut(word: str, width: int) -> list[str]:
    """One argument on several lines: a backslash at the end of a line joins them, and nothing may stand before the next."""
    raw = "".join(shlex.split(word))
    parts = [shlex.quote(part) for part in pieces(raw, max(width - 6, _LEAST_WIDTH))]
    return [f"{'   ' if not number else ''}{part}\\" for number, part in enumerate(parts[:-1])] + [parts[-1]]


def again(command: str, root: str | None) -> str:
    """A command about the same machine, recording or folder."""
    return f"zombiescope {command}" + ("" if root is None else f" --root {shlex.quote(root)}")


class Block:
    """A word in the margin, and lines beside it."""

    def __init__(
        self, label: str, lines: Iterable[Text | str | Command], *, style: str = "bold", width: int = LABEL_WIDTH
    ) -> None:
        self.label, self.style, self.width = label, style, width
        self.lines: Sequence[Text | str | Command] = list(lines)

    def __str__(self) -> str:
        first, *rest = map(str, self.lines)
        return "\n".join([f"{self.label:<{self.width}}{first}", *(f"{'':<{self.width}}{line}" for line in rest)])

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        label = Text().append(set_cell_size(self.label, self.width), style=self.style)  # the line beside it has its own
        for line in self._beside(options):
            yield _rstripped(label + line)
            label = Text(" " * self.width)

    def _beside(self, options: ConsoleOptions) -> Iterator[Text]:
        room = options.max_width - self.width
        for each in self.lines:
            if isinstance(each, Command):
                yield from command_lines(each, room, is_one=bool(options.no_wrap))
                continue
            text = Text(each) if isinstance(each, str) else each
            yield from [text] if options.no_wrap else wrapped(text, room)


def _rstripped(text: Text) -> Text:
    text.rstrip()
    return text


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


_GAP = 2
Cell = str | Text


class Column(NamedTuple):
    name: str
    is_number: bool = True
    least_width: int | None = None
    """May be folded between words, but not below this width; None means never."""


class Fitting:
    """A table where there is room for it, else a line for each figure. Column `about` says what the row is about. `is_headed`
    shows the names of the columns."""

    def __init__(
        self,
        columns: Sequence[Column],
        rows: Sequence[Sequence[Cell]],
        *,
        indent: int = 0,
        is_headed: bool = True,
        about: int = 0,
    ) -> None:
        self._columns = columns
        self._rows = [[Text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
        self._indent = indent
        self._is_headed = is_headed
        self._about = about % len(columns)

    def __rich_console__(self, _: Console, options: ConsoleOptions) -> RenderResult:
        widths = self._widths(options.max_width - self._indent - _GAP * (len(self._columns) - 1))
        yield from self._lines(options.max_width) if widths is None else self._table(widths)

    def _widths(self, room: int) -> list[int] | None:
        """Of each column; None where they do not fit without breaking a word."""
        whole = [max(map(cell_len, self._texts(number)), default=0) for number in range(len(self._columns))]
        least = [self._least(number, width) for number, width in enumerate(whole)]
        if sum(least) > room:
            return None
        spare = room - sum(least)
        for number in range(len(least)):
            more = min(whole[number] - least[number], spare)
            least[number] += more
            spare -= more
        return least

    def _texts(self, number: int) -> list[str]:
        named = [self._columns[number].name] if self._is_headed else []
        return [*named, *(row[number].plain for row in self._rows)]

    def _least(self, number: int, whole: int) -> int:
        wanted = self._columns[number].least_width
        return whole if wanted is None else min(max(wanted, *map(longest_piece, self._texts(number)), 0), whole)

    def _table(self, widths: list[int]) -> Iterator[Text]:
        if self._is_headed:
            yield from self._row([Text(column.name, style="bold") for column in self._columns], widths)
        for row in self._rows:
            yield from self._row(row, widths)

    def _row(self, row: Sequence[Text], widths: list[int]) -> Iterator[Text]:
        cells = [wrapped(cell, width) for cell, width in zip(row, widths, strict=True)]
        for beside in zip_longest(*cells, fillvalue=Text()):
            line = Text(" " * self._indent)
            for number, (cell, width) in enumerate(zip(beside, widths, strict=True)):
                missing = " " * (width - cell_len(cell.plain))
                gap = " " * _GAP if number else ""
                line = (
                    line.append(gap + missing).append_text(cell)
                    if self._columns[number].is_number
                    else (line.append(gap).append_text(cell).append(missing))
                )
            line.rstrip()
            yield line

    def _lines(self, width: int) -> Iterator[Text]:
        if self._is_headed and self._columns[self._about].name:
            yield from wrapped(Text(self._columns[self._about].name, style="bold"), width)
        for row in self._rows:
            if not self._is_headed:
                yield from _below("  ", Text(" ").join(cell for cell in row if cell), width)
                continue
            yield from wrapped(row[self._about], width)
            for number, cell in enumerate(row):
                if number != self._about and cell:
                    name = self._columns[number].name
                    yield from _below("  ", Text(f"{name} " if name else "").append_text(cell), width)


def _below(margin: str, text: Text, width: int) -> Iterator[Text]:
    yield from (Text(margin).append_text(line) for line in wrapped(text, width - len(margin)))
