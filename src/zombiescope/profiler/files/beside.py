# SPDX-License-Identifier: Apache-2.0
"""What lies beside the captures of a folder: each one's summary, what the recorder did (`.recorder`), moments that somebody asked
to keep (`.moments`), which captures were sent where (`.pushed`). Needs no numpy. What cannot be written is tried again with the
next word."""

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from typing import Any

from zombiescope.host.safe_open import open_regular
from zombiescope.host.whole_file import write_whole
from zombiescope.profiler.formats.summary_document import MOST_BYTES, figure, read_reasons, with_reasons, words_of
from zombiescope.profiler.stacks.about import Note, Reason

SUMMARY = b".summary"
_JOURNAL, _MOMENTS, _PUSHED = b".recorder", b".moments", b".pushed"
BOOKS = (_JOURNAL, _MOMENTS, _PUSHED)
"""Each stays small by itself, and counts."""
_MOST_JOURNAL_BYTES, _MOST_WAITING = 256 << 10, 1000


def summary_path(capture: bytes) -> bytes:
    return capture.removesuffix(b".zscap") + SUMMARY


def read_beside(capture: bytes) -> bytes | None:
    """The summary of a capture; None: there is none that can be read."""
    return read_bounded(summary_path(capture), MOST_BYTES)


def read_bounded(path: bytes, most: int) -> bytes | None:
    try:
        with os.fdopen(open_regular(path)[0], "rb") as file:
            content = file.read(most + 1)
    except OSError:
        return None
    return content if len(content) <= most else None


def write_beside(capture: bytes, content: bytes) -> bool:
    try:
        write_whole(summary_path(capture), [content])
    except OSError:
        return False
    return True


def add_reasons(capture: bytes, reasons: list[Reason]) -> bool:
    """Whether it has all of them now; one without a summary gets them with it."""
    raw = read_beside(capture)
    if raw is None:
        return False
    changed = with_reasons(raw, reasons)
    return changed is None or write_beside(capture, changed)


class RecorderJournal:
    """Lines of JSON, appended. On a full disk they wait."""

    def __init__(self, folder: bytes, boot: str, clocks: Callable[[], tuple[float, float]]) -> None:
        self._path, self._boot, self._clocks = os.path.join(folder, _JOURNAL), boot, clocks
        self._waiting: list[Note] = []

    def note(self, what: str, words: str) -> None:
        at, steady = self._clocks()
        self._waiting = [*self._waiting, Note(at, self._boot, steady, what, words)][-_MOST_WAITING:]
        self.write()

    def write(self) -> None:
        if self._waiting and _append(self._path, [note._asdict() for note in self._waiting]):
            self._waiting.clear()
            _shorten(self._path)


def _append(path: bytes, documents: list[dict[str, Any]]) -> bool:
    """All or nothing: a line that is cut short by a full disk is taken back."""
    content = b"".join(json.dumps(one, separators=(",", ":")).encode() + b"\n" for one in documents)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return False
    written = 0
    try:
        before = os.fstat(descriptor).st_size
        with contextlib.suppress(OSError):
            written = os.write(descriptor, content)
        if written < len(content):
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, before)
        return written == len(content)
    finally:
        os.close(descriptor)


def _shorten(path: bytes) -> None:
    """The newer half of one that has grown too long."""
    with contextlib.suppress(OSError):
        if os.stat(path).st_size > _MOST_JOURNAL_BYTES:
            content = read_bounded(path, 4 * _MOST_JOURNAL_BYTES) or b""
            write_whole(path, [content[-_MOST_JOURNAL_BYTES // 2 :].partition(b"\n")[2]])


def read_notes(folder: bytes) -> list[Note]:
    """In the order they were written; lines that make no sense are left out."""
    notes = []
    for each in _lines(os.path.join(folder, _JOURNAL)):
        at, steady = figure(each.get("at")), figure(each.get("steady"))
        if at is not None and steady is not None:
            notes.append(Note(at, words_of(each, "boot"), steady, words_of(each, "what"), words_of(each, "words")))
    return notes


def ask_to_keep(folder: bytes, reason: Reason) -> bool:
    return _append(os.path.join(folder, _MOMENTS), [reason._asdict()])


def take_asked(folder: bytes) -> list[Reason]:
    """Those that were asked for; when there are many, their older half is forgotten."""
    path = os.path.join(folder, _MOMENTS)
    found = [each._replace(kind=each.kind or "asked") for each in read_reasons(_lines(path))]
    _shorten(path)
    return found


def note_pushed(folder: bytes, where: str, capture: str, written_at: float) -> bool:
    return _append(os.path.join(folder, _PUSHED), [{"to": where, "capture": capture, "written_at": written_at}])


def pushed_to(folder: bytes, where: str, there: set[str]) -> set[tuple[str, float]]:
    """The captures that a server has taken, with the time each was written. Those that are not `there` any more are forgotten."""
    path = os.path.join(folder, _PUSHED)
    every = [each for each in _lines(path) if figure(each.get("written_at")) is not None]
    with contextlib.suppress(OSError):
        if os.stat(path).st_size > _MOST_JOURNAL_BYTES:
            kept = [each for each in every if each.get("capture") in there]
            write_whole(path, [json.dumps(each, separators=(",", ":")).encode() + b"\n" for each in kept])
    return {(str(each.get("capture")), float(each["written_at"])) for each in every if each.get("to") == where}


def _lines(path: bytes) -> Iterator[dict[str, Any]]:
    for line in (read_bounded(path, 8 * _MOST_JOURNAL_BYTES) or b"").split(b"\n"):
        with contextlib.suppress(ValueError, RecursionError):
            each = json.loads(line) if line else None
            if isinstance(each, dict):
                yield each
