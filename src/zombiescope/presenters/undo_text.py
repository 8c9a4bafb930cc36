# SPDX-License-Identifier: Apache-2.0
"""What an `undo` took back, for a person: the first line says whether all of it, the last one what to type next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from rich.console import RenderableType
from rich.text import Text

from zombiescope.presenters.receipt_json import Kept

_EXAMPLES = 5
_CLEAN = ("restored", "nothing-to-do")


class Change(Protocol):
    @property
    def what(self) -> str: ...
    @property
    def outcome(self) -> str: ...
    @property
    def why(self) -> str: ...


def render_undo_text(action: str, taken: Sequence[Change], kept: Sequence[Kept], restore: str) -> list[RenderableType]:
    clean = sum(each.outcome in _CLEAN for each in taken)
    lost = len(taken) - clean
    if not taken:
        head = Text(f"nothing is left to take back of {action}", style="green")
    elif lost:
        head = Text(
            f"not everything was taken back: {clean:,} of {_changes(len(taken))} of {action}; ", style="bold red"
        )
        head.append(f"{lost:,} cannot be undone")
    else:
        head = Text(f"taken back: {_changes(len(taken))} of {action}", style="green")
    lines = [Text(f"  {each.outcome:<17}{each.what}   {each.why}".rstrip()) for each in taken]
    return [head, *lines, Text(), *_kept_lines(kept), Text(_next(kept, restore, to_do="zombiescope scan"))]


def render_undo_dry_run(
    action: str, todo: Sequence[str], kept: Sequence[Kept], lines: tuple[str, str], *, also_files: bool
) -> list[RenderableType]:
    """`lines`: what to type with and without deleted files; `also_files`: they were asked for, too."""
    restore, undo = lines
    number = len(todo) + (len(kept) if also_files else 0)
    head = f"dry run: nothing was changed; {_changes(number)} of {action} would be taken back"
    parts: list[RenderableType] = [Text(head, style="yellow"), *(Text(f"  {line}") for line in todo), Text()]
    do_it = f"to do it: {restore if also_files else undo}"
    if not kept:
        return [*parts, Text(do_it)]
    more = [] if also_files else [Text(f"to put them back, too: {restore}")]
    return [*parts, *_kept_lines(kept), *more, Text(do_it)]


def _kept_lines(kept: Sequence[Kept]) -> list[Text]:
    if not kept:
        return []
    files = "1 deleted file" if len(kept) == 1 else f"{len(kept):,} deleted files"
    lines = [Text(f"copies of {files} are kept:")]
    lines += [Text(f"  {each.path}   copy: {each.copy}") for each in kept[:_EXAMPLES]]
    if len(kept) > _EXAMPLES:
        lines.append(Text(f"  and {len(kept) - _EXAMPLES:,} more (--json lists all)"))
    return lines


def _next(kept: Sequence[Kept], restore: str, to_do: str) -> str:
    return f"to put them back: {restore}" if kept else f"to look at the host: {to_do}"


def _changes(number: int) -> str:
    return "1 change" if number == 1 else f"{number:,} changes"
