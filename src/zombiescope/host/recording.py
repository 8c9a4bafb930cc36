# SPDX-License-Identifier: Apache-2.0
"""A recording: every answer a machine gave, in order and with its time, one JSON object a line; and the machine replayed from it.

The first line is the header. Time is counted in seconds that the readers let pass; within one instant the same question may have
been answered several times (a count before and after a walk), so answers keep their order. Bytes that are not UTF-8 survive.
Replayed, the same question at the same time gets the same answer, in the order it was given then.
"""

import errno
import json
import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from math import isfinite
from typing import Any, NamedTuple

from zombiescope.errors import KEPT_BY_NEWER, UnknownFormatError, UsageError, unknown_format
from zombiescope.facts.names import shown_text
from zombiescope.host.access import NOT_RECORDED, READ_LIMIT_BYTES, DirectoryWalk

SCHEMA = "zombiescope.recording/1"
MEMBER = "recording.jsonl"
HISTORY, CAPTURES = "history.jsonl", "captures.jsonl"
"""What a recording carries beside its answers, in the same archive: what the agent remembered, and profiles."""
CARRIED = (HISTORY, CAPTURES)
PACKED = "packed"
"""The key of numbers, as bytes in base64: everything else in a line of these is a text that can be read."""
OPERATIONS = ("read", "subdirectories", "directories", "inode", "wall_clock", "experiment")

_MOST_BITS = 128


class Answer(NamedTuple):
    at: float
    """Seconds that had been let pass before the question."""
    operation: str
    path: bytes
    """The file or directory; of an experiment its name; empty for the clock."""
    value: Any
    """Plain JSON; None together with `error`."""
    error: str = ""
    """Name of the errno, such as ENOENT."""


class Header(NamedTuple):
    tool: str
    label: str


def text_of(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape")


def bytes_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def encode(header: Header, answers: Iterable[Answer]) -> Iterator[str]:
    yield json.dumps({"schema": SCHEMA, "tool": header.tool, "label": header.label})
    for answer in answers:
        line = {"at": answer.at, "ask": answer.operation, "path": text_of(answer.path)}
        line |= {"errno": answer.error} if answer.error else {"answer": answer.value}
        yield json.dumps(line, separators=(",", ":"))


def decode(lines: Iterable[bytes], name: str) -> tuple[Header, list[Answer]]:
    """Raises UsageError with the line that is not as it should be."""
    header: Header | None = None
    answers: list[Answer] = []
    for number, line in enumerate(lines, 1):
        try:
            entry = json.loads(line, parse_float=_finite, parse_constant=_finite, parse_int=_bounded)
            if header is None:
                header = _header(entry)
            else:
                answers.append(_answer(entry))
        except UnknownFormatError as error:
            raise UsageError(f"cannot use {name} as a root", shown_text(str(error)), KEPT_BY_NEWER) from error
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise refused(name, f"line {number} is not part of a recording ({_short(error)})") from error
    if header is None:
        raise refused(name, "it is empty")
    return header, answers


def _finite(text: str) -> float:
    """No machine tells of infinity, and what is reckoned with it would be neither a number nor JSON."""
    number = float(text)
    if not isfinite(number):
        raise ValueError(f"{text[:20]} is no number of a machine")
    return number


def _bounded(text: str) -> int:
    number = int(text)
    if number.bit_length() > _MOST_BITS:
        raise ValueError(f"{text[:20]}... is no number of a machine")
    return number


def refused(name: str, why: str) -> UsageError:
    return UsageError(f"cannot use {name} as a root", why, "make a new one: zombiescope record FILE")


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:120].replace("\n", " ")


def _header(entry: Any) -> Header:
    found = str(entry.get("schema")) if isinstance(entry, dict) else ""
    if found != SCHEMA:
        if found.startswith(SCHEMA.rpartition("/")[0]):
            raise UnknownFormatError(unknown_format(found[:60], SCHEMA))
        raise ValueError(f"the schema is not {SCHEMA}")
    return Header(str(entry.get("tool", "")), str(entry.get("label", "")))


def _answer(entry: Any) -> Answer:
    at, operation, path = entry["at"], entry["ask"], bytes_of(entry["path"])
    if not isinstance(at, int | float) or isinstance(at, bool) or not 0 <= at < 1e9:
        raise ValueError("the time is not a number of seconds")
    if operation not in OPERATIONS:
        raise ValueError(f"nobody asks for {operation!r}")
    if "errno" in entry:
        if entry["errno"] not in errno.errorcode.values():
            raise ValueError("there is no such errno")
        return Answer(float(at), operation, path, None, str(entry["errno"]))
    return Answer(float(at), operation, path, _checked(operation, entry["answer"]))


def _checked(operation: str, value: Any) -> Any:
    """The value, when it has the form that the operation's answer has."""
    match operation:
        case "read":
            is_good = _are_strings([value])
        case "subdirectories":
            is_good = _are_strings(value)
        case "directories":
            is_good = isinstance(value, dict) and _are_strings(value["paths"]) and _are_strings(value["leaves"])
            is_good = is_good and all(_is_failure(*pair) for pair in value["unreadable"])
        case "inode":
            is_good = value is None or (isinstance(value, int) and not isinstance(value, bool))
        case "wall_clock":
            is_good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e11
        case _:
            is_good = value is None or isinstance(value, dict)
    if not is_good:
        raise ValueError(f"this is no answer to {operation}")
    return value


def _are_strings(value: Any) -> bool:
    """Strings that stand for bytes: a surrogate that no byte gives raises ValueError."""
    return isinstance(value, list) and all(isinstance(entry, str) and bytes_of(entry) is not None for entry in value)


def _is_failure(path: Any, name: Any) -> bool:
    return _are_strings([path]) and name in errno.errorcode.values()


_Key = tuple[str, bytes]
_CLOCK: _Key = ("wall_clock", b"")


class _Track:
    """The answers to one question: by instant, and in order within an instant."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.answers: list[list[Answer]] = []
        self.asked: list[int] = []
        self.orders: list[list[int]] = []
        """Of each answer, how many of all questions were asked before."""

    def add(self, answer: Answer, order: int) -> None:
        if not self.times or answer.at > self.times[-1]:
            self.times.append(answer.at)
            self.answers.append([])
            self.asked.append(0)
            self.orders.append([])
        self.answers[-1].append(answer)
        self.orders[-1].append(order)

    def at(self, now: float) -> Answer:
        """The next one of the latest instant not after now; the last one of it again and again. The first, before all of them."""
        instant = self._instant(now)
        row, count = self.answers[instant], self.asked[instant]
        self.asked[instant] = count + 1
        return row[min(count, len(row) - 1)]

    def skip_to(self, order: int, now: float) -> None:
        """The last one of this instant that was given before that question comes next."""
        instant = self._instant(now)
        self.asked[instant] = max(bisect_right(self.orders[instant], order) - 1, self.asked[instant])

    def _instant(self, now: float) -> int:
        return max(bisect_right(self.times, now + 0.0005) - 1, 0)


class ReplayHost:
    is_live = False

    def __init__(self, label: str, answers: list[Answer]) -> None:
        self.label = label
        self._now = 0.0
        self._tracks: dict[_Key, _Track] = {}
        for order, answer in enumerate(answers):
            self._tracks.setdefault((answer.operation, answer.path), _Track()).add(answer, order)

    def read(self, path: bytes, limit: int = READ_LIMIT_BYTES) -> bytes:
        content = bytes_of(self._ask("read", path))
        if len(content) > limit:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
        return content

    def subdirectories(self, path: bytes) -> list[bytes]:
        return [bytes_of(name) for name in self._ask("subdirectories", path)]

    def directories(self, path: bytes) -> DirectoryWalk:
        walk = self._ask("directories", path)
        return DirectoryWalk(
            tuple(bytes_of(entry) for entry in walk["paths"]),
            tuple(bytes_of(entry) for entry in walk["leaves"]),
            tuple((bytes_of(entry), int(getattr(errno, name))) for entry, name in walk["unreadable"]),
        )

    def inode(self, path: bytes) -> int | None:
        number = self._ask("inode", path)
        return None if number is None else int(number)

    def wait(self, seconds: float) -> None:
        self._now = round(self._now + seconds, 3)

    def go_to(self, path: bytes) -> None:
        """To when this file was first read, and to what the clock said then: before that nobody looked, and a file that stands
        still there did not stand still."""
        track = self._tracks.get(("read", path))
        if track is not None and track.times[0] > self._now:
            self._now = track.times[0]
            if _CLOCK in self._tracks:
                self._tracks[_CLOCK].skip_to(track.orders[0][0], self._now)

    def seconds_left(self, path: bytes) -> float | None:
        """For which this file goes on being read; None where it never was."""
        track = self._tracks.get(("read", path))
        return None if track is None else max(track.times[-1] - self._now, 0.0)

    def wall_clock(self) -> float:
        if (track := self._tracks.get(_CLOCK)) is None:
            return 0.0
        answer = track.at(self._now)
        return float(answer.value) + max(self._now - answer.at, 0.0)

    def monotonic(self) -> float:
        return self._now

    def experiment(self, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:  # noqa: ARG002
        track = self._tracks.get(("experiment", name.encode()))
        return None if track is None else track.at(self._now).value

    def _ask(self, operation: str, path: bytes) -> Any:
        if (track := self._tracks.get((operation, path))) is None:
            raise OSError(errno.ENOENT, NOT_RECORDED, path)
        answer = track.at(self._now)
        if answer.error:
            code = int(getattr(errno, answer.error))
            raise OSError(code, os.strerror(code), path)
        return answer.value
