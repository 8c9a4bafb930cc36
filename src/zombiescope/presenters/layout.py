# SPDX-License-Identifier: Apache-2.0
"""Lines for a person at any width: words stay whole and nothing passes the edge. A name that is longer than a line is cut at its
joints (`/`, `.`, `-`); a command goes on behind a backslash, so that it can be pasted as it stands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.text import Text

from zombiescope.facts.gap import Gap
from zombiescope.presenters.commands import quoted
from zombiescope.presenters.plain_words import gap_subject

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

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console
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

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console
        yield from command_lines(self, options.max_width, is_one=bool(options.no_wrap))


def command_lines(asked: Command, width: int, *, is_one: bool = False) -> list[Text]:
    whole = Text(f"{asked.why}: ").append(asked.command, style="bold")
    if is_one or cell_len(whole.plain) <= width:
        return [whole]
    lines = wrapped(Text(f"{asked.why}:"), width)
    return [*lines, *(Text(each, style="bold") for each in folded_command(asked.command, width))]


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
    return f"zombiescope {command}" + ("" if root is None else f" --root {quoted(root)}")


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

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console
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
