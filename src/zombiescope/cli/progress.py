# SPDX-License-Identifier: Apache-2.0
"""What is being done, on standard error, while a person waits; silent when nobody watches."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.status import Status


def tell(line: str, *, only_watched: bool = False) -> None:
    """For a person. Where nobody can read it any more nothing comes of it, and the exit code still tells. `only_watched`: not where
    standard error goes to a file or a journal."""
    if sys.stderr is None or (only_watched and not _is_watched()):
        return
    try:
        sys.stderr.write((folded(line) if sys.stderr.isatty() else line) + "\n")
        sys.stderr.flush()
    except OSError:  # pointed elsewhere, or the interpreter complains once more when it ends
        from zombiescope.host.own_folder import open_nothing  # only for who cannot be heard

        os.dup2(open_nothing(), 2)


def folded(text: str) -> str:
    """Between words, beside a label in the margin: a terminal would break them anywhere. A command can be pasted from it."""
    import re  # only for a person
    from shutil import get_terminal_size

    from zombiescope.presenters.layout import Command, command_lines, spans

    width, lines = max(get_terminal_size().columns or 80, 20), []
    for line in text.split("\n"):
        if len(line) <= width:
            lines.append(line)
        elif typed := re.fullmatch(r"(\w[^:]*): (zombiescope .*)", line):
            lines += [each.plain for each in command_lines(Command(typed[1], typed[2]), width)]
        else:
            margin = re.match(r" *(?:\S+ {2,})?", line)
            hang = len(margin[0]) if margin and len(margin[0]) < width // 2 else 0
            begins = [line[:hang], *[" " * hang] * len(line)]
            rest = line[hang:]
            found = spans(rest, width - hang)
            lines += [begun + rest[start:end] for begun, (start, end) in zip(begins, found, strict=False)]
    return "\n".join(lines)


class Stage:
    """What is being done, beside a spinner. What is shown may fail with the terminal; what is done meanwhile does not."""

    def __init__(self, status: Status | None) -> None:
        self._status = status

    def __call__(self, what: str) -> None:
        self._do(lambda status: status.update(what))

    @contextmanager
    def silent(self) -> Iterator[None]:
        """The spinner stands aside while a person is asked: it would draw over the question."""
        self._do(lambda status: status.stop())
        try:
            yield
        finally:
            self._do(lambda status: status.start())

    def aside(self, line: str) -> None:
        """A line that stays, whoever watches."""
        with self.silent():
            tell(line)

    @contextmanager
    def running(self) -> Iterator[None]:
        self._do(lambda status: status.start())
        try:
            yield
        finally:
            self._do(lambda status: status.stop())

    def _do(self, act: Callable[[Status], None]) -> None:
        if self._status is not None:
            with suppress(OSError):
                act(self._status)


@contextmanager
def stage_shown() -> Iterator[Stage]:
    if not _is_watched():
        yield Stage(None)
        return
    from rich.console import Console  # drawing is loaded only when it is needed

    stage = Stage(Console(stderr=True).status("looking"))
    with stage.running():
        yield stage


def _is_watched() -> bool:
    return sys.stderr is not None and sys.stderr.isatty()


@contextmanager
def window_shown(seconds: float, what: str, then: str = "") -> Iterator[Callable[[float], None]]:
    """A bar for a window of known length; the callable is told how much of it is over. `what` is done in it, `then` after it."""
    with _bar(what, seconds, ("TimeRemainingColumn",), shown=seconds > 0) as update:
        yield lambda done: update(completed=done, description=then if then and done >= seconds else what)


@contextmanager
def running_shown(what: str, seconds: float | None) -> Iterator[Callable[[float], None]]:
    """For what may go on until it is interrupted: a bar where its length is known, else how long it has run."""
    if seconds is not None:
        with window_shown(seconds, what) as progress:
            yield progress
        return
    with stage_shown() as stage:
        yield lambda done: stage(f"{what} for {done:.0f} s; Ctrl-C ends it")


@contextmanager
def count_shown(what: str, total: int | None) -> Iterator[Callable[[int], None]]:
    """A bar for things made one by one; the callable is told how many there are. Without a total it only counts."""
    with _bar(what, total, ("MofNCompleteColumn", "TimeElapsedColumn")) as update:
        yield lambda done: update(completed=done)


@contextmanager
def bytes_shown(what: str, *, shown: bool = True) -> Iterator[Callable[[int, int], None]]:
    """A bar for bytes read; the callable is told how many, of how many."""
    with _bar(what, None, ("DownloadColumn", "TimeRemainingColumn"), shown=shown) as update:
        yield lambda done, total: update(completed=done, total=total)


@contextmanager
def _bar(
    what: str, total: float | None, columns: Sequence[str], *, shown: bool = True
) -> Iterator[Callable[..., None]]:
    """With these columns of rich's, where somebody watches; the callable changes what it shows."""
    if not shown or not _is_watched():
        yield lambda **_: None
        return
    from rich import progress  # drawing is loaded only when it is needed
    from rich.console import Console

    drawn = (progress.TextColumn("{task.description}"), progress.BarColumn())
    figures = (getattr(progress, name)() for name in columns)
    with progress.Progress(*drawn, *figures, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda **changed: bar.update(task, **changed)
