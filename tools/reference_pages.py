# SPDX-License-Identifier: Apache-2.0
"""Pages of docs/reference that are written from the catalogues: commands, exit codes, findings, gaps; and the list of decisions."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tools.command_tree import Command, every_command

from zombiescope.errors import ActionFailedError, ActionUndoneError, ObservationError, UsageError
from zombiescope.pipeline.explain import Library, Page

ROOT = Path(__file__).resolve().parent.parent
_WRITTEN = "Written by `tools/write_reference.py` from {}; a test keeps them equal."

EXITS = (
    (0, "It did what you asked."),
    (1, "It found something, and you asked it to fail on that: `doctor --fail-on`, `audit --against`, `verify`."),
    (UsageError.exit_code, "The command line or the configuration is wrong. Nothing was read or changed."),
    (ObservationError.exit_code, "The machine could not be looked at. The message says why, and what to type."),
    (ActionUndoneError.exit_code, "An action failed, and everything was put back."),
    (
        ActionFailedError.exit_code,
        "An action failed, and something was **not** put back. The message names it, and the journal.",
    ),
    (70, "A bug in zombiescope. The message names the file with the details."),
    (130, "Interrupted with Ctrl-C."),
    (141, "The reader of a pipe went away, as in `zombiescope autopsy | head -1`."),
)
CHECK_EXITS = (
    (0, "OK"),
    (1, "WARNING"),
    (2, "CRITICAL"),
    (3, "UNKNOWN: it could not look, or the command line is wrong"),
)


def commands() -> str:
    every = list(every_command())
    lines = ["# Commands", "", _WRITTEN.format("the commands themselves"), ""]
    lines += ["On the terminal: `zombiescope help COMMAND`, or `man zombiescope-COMMAND` after `make install`.", ""]
    lines += ["| command | what it does |", "|---|---|"]
    for command in every:
        lines.append(f"| [`{command.name}`](#{command.page}) | {_cell(command.summary)} |")
    for command in every:
        lines += ["", f"## {command.page}", "", *_command(command)]
    return "\n".join([*lines, ""])


def _command(command: Command) -> Iterator[str]:
    yield f"`{command.name} {command.usage}`"
    for paragraph in command.paragraphs:
        yield from ("", _prose(paragraph))
    if command.flags:
        yield from ("", "| option | meaning |", "|---|---|")
        yield from (f"| `{_cell(flag.names)}` | {_cell(flag.help)} |" for flag in command.flags)
    if command.examples:
        yield from ("", "```text", *command.examples, "```")


def _prose(paragraph: str) -> str:
    if paragraph.startswith("\b"):
        return "```text\n" + paragraph.removeprefix("\b\n") + "\n```"
    return re.sub(r"(?<![`\w/-])(--[a-z][a-z-]*)(?![`\w])", r"`\1`", _words(paragraph))


def _words(text: str) -> str:
    """What Markdown would take for markup outside code spans."""
    parts = text.split("`")
    parts[::2] = [part.replace("*", r"\*").replace("<", "&lt;").replace("_", r"\_") for part in parts[::2]]
    return "`".join(parts)


def _cell(text: str) -> str:
    return text.replace("|", r"\|").replace("<", "&lt;")


def exit_codes() -> str:
    lines = ["# Exit codes", "", _WRITTEN.format("`errors.py`"), "", "| code | meaning |", "|---|---|"]
    lines += [f"| {code} | {meaning} |" for code, meaning in EXITS]
    lines += ["", "`zombiescope check` alone follows the convention of monitoring plugins, in every output format:", ""]
    lines += ["| code | verdict |", "|---|---|", *(f"| {code} | {verdict} |" for code, verdict in CHECK_EXITS)]
    lines += ["", "What each command returns is in its help: [commands](commands.md).", ""]
    return "\n".join(lines)


def findings() -> str:
    library = Library()
    lines = [
        "# Findings",
        "",
        _WRITTEN.format("what each rule of `diagnosis/rules` declares and `data/explain.toml`"),
        "",
    ]
    lines += ["What `doctor` can find, then what can keep a zombie. Offline: `zombiescope explain NAME`.", ""]
    for word in library.words()["finding"]:
        lines += _page(library.pages(word)[0])
    lines += ["## Kinds of pin", "", "What keeps a zombie, as `autopsy` names it. Least harm first.", ""]
    for word in library.words()["pin"]:
        lines += _page(next(page for page in library.pages(word) if page.kind == "pin"), "###")
    return "\n".join(lines)


def gaps() -> str:
    library = Library()
    lines = ["# Gaps", "", _WRITTEN.format("`data/explain.toml`"), ""]
    lines += ["A gap is a fact that could not be read. It is never reported as zero: text shows `?` or *unknown*, JSON"]
    lines += ["`null` and an entry in `gaps`. Offline: `zombiescope explain FACT`. A `*` stands for anything.", ""]
    told: dict[tuple[str, str, str], list[str]] = {}
    for word in library.words()["gap"]:
        page = next(page for page in library.pages(word) if page.kind == "gap")
        told.setdefault((page.title, page.rows[0][1], page.rows[1][1]), []).append(word)
    lines += ["| fact | what it is | why it may be missing | how to get it |", "|---|---|---|---|"]
    for (what, why, get), facts in told.items():
        lines.append(f"| {', '.join(f'`{fact}`' for fact in facts)} | {what} | {why} | {get} |")
    return "\n".join([*lines, ""])


def _page(page: Page, level: str = "##") -> list[str]:
    lines = [f"{level} {page.word}", "", f"{_words(page.title)}", ""]
    label = ""
    for given, text in page.rows:
        label = given or label
        lines.append(f"- *{label}*: {_words(text)}")
    return [*lines, f"- *next*: `{page.next}`", ""]


def decisions() -> str:
    lines = ["# Decisions", "", _WRITTEN.format("the records beside it"), ""]
    lines += ["Why the project is built as it is: context, decision, price, and what would change our mind.", ""]
    for record in sorted((ROOT / "docs/decisions").glob("[0-9]*.md")):
        title = record.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
        lines.append(f"- [{title}]({record.name})")
    return "\n".join([*lines, ""])
