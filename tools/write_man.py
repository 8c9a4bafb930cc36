# SPDX-License-Identifier: Apache-2.0
"""Writes a manual page per command, from the commands themselves, into build/man or the folder that is named."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import wrap

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from tools.command_tree import Command, every_command  # noqa: E402
from tools.reference_pages import CHECK_EXITS, EXITS  # noqa: E402

from zombiescope import __version__  # noqa: E402

_DATE = "2026-11-18"
_CODE = re.compile(r"`([^`]+)`")  # may run over the end of a line


def page(command: Command, every: dict[str, Command]) -> str:
    return "\n".join(_lines(command, every)) + "\n"


def _lines(command: Command, every: dict[str, Command]) -> Iterator[str]:
    yield f'.TH {command.page.upper()} 1 "{_DATE}" "zombiescope {__version__}" "Zombiescope Manual"'
    yield ".SH NAME"
    yield f"{_plain(command.page)} \\- {_text(command.summary.rstrip('.'))}"
    yield ".SH SYNOPSIS"
    yield f".B {_plain(command.name)}"
    yield _plain(command.usage)
    yield ".SH DESCRIPTION"
    yield from _paragraphs(command)
    if command.inner:
        yield ".SH COMMANDS"
        for name in command.inner:
            inner = every[f"{command.page}-{name}"]
            yield from (".TP", f".BR {_plain(inner.page)} (1)", _text(inner.summary))
    if command.flags:
        yield ".SH OPTIONS"
        for flag in command.flags:
            yield from (".TP", f".B {_plain(flag.names)}", _text(flag.help) or "See the description.")
    yield ".SH EXIT STATUS"
    for code, meaning in CHECK_EXITS if command.words[1:] == ("check",) else EXITS:
        yield from (".TP", f".B {code}", _text(meaning.replace("**", "")))
    if command.examples:
        yield ".SH EXAMPLES"
        yield from (".nf", *(_plain(line) or "\\&" for line in command.examples if line.strip() != "Examples:"), ".fi")
    yield ".SH SEE ALSO"
    yield from _see_also(command)


def _paragraphs(command: Command) -> Iterator[str]:
    for number, paragraph in enumerate(command.paragraphs):
        if number:
            yield ".PP"
        if paragraph.startswith("\b"):
            yield from (".nf", *(_plain(line) or "\\&" for line in paragraph.removeprefix("\b\n").splitlines()), ".fi")
        else:
            yield _text(paragraph)


def _see_also(command: Command) -> Iterator[str]:
    others = ["zombiescope"] if len(command.words) > 1 else []
    if len(command.words) > 2:
        others.append("-".join(command.words[:-1]))
    for name in (*others, "zombiescope-help", "zombiescope-explain"):
        if name != command.page:
            yield f".BR {_plain(name)} (1)"


def _text(text: str) -> str:
    """Prose in short lines, code spans in bold."""
    lines = wrap(_escaped(" ".join(text.split())), 66, break_long_words=False, break_on_hyphens=False)
    return _CODE.sub(r"\\fB\1\\fR", "\n".join(_guarded(line) for line in lines))


def _plain(line: str) -> str:
    return _guarded(_escaped(line))


def _escaped(text: str) -> str:
    return text.replace("\\", r"\e").replace("-", r"\-")


def _guarded(line: str) -> str:
    """A line that begins with a dot or a quote would be a request."""
    return f"\\&{line}" if line[:1] in (".", "'") else line


def main() -> None:
    target = Path(sys.argv[1]) if sys.argv[1:] else ROOT / "build/man"
    target.mkdir(parents=True, exist_ok=True)
    every = {command.page: command for command in every_command()}
    for name, command in every.items():
        (target / f"{name}.1").write_text(page(command, every), encoding="utf-8")
    print(f"{target}: {len(every)} manual pages; man -l {target}/zombiescope.1")


if __name__ == "__main__":
    main()
