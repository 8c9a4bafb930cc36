# SPDX-License-Identifier: Apache-2.0
"""A recording: every answer a machine gave, in order and with its time, one JSON object a line.

The first line is the header. Time is counted in seconds that the readers let pass; within one instant the same question may have
been answered several times (a count before and after a walk), so answers keep their order. Bytes that are not UTF-8 survive.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from zombiescope.errors import KEPT_BY_NEWER, UnknownFormatError, UsageError, unknown_format
from zombiescope.facts.names import shown_text

SCHEMA = "zombiescope.recording/1"
MEMBER = "recording.jsonl"
HISTORY, CAPTURES = "history.jsonl", "captures.jsonl"
"""What a recording carries beside its answers, in the same archive: what the agent remembered, and profiles."""
CARRIED = (HISTORY, CAPTURES)
PACKED = "packed"
"""The key of numbers, as bytes in base64: everything else in a line of these is a text that can be read."""
OPERATIONS = ("read", "subdirectories", "directories", "inode", "wall_clock", "experiment")


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
    numbered = enumerate(lines, 1)
    header: Header | None = None
    answers: list[Answer] = []
    for number, line in numbered:
        try:
            entry = json.loads(line)
            if header is None:
                header = _header(entry)
            else:
                answers.append(_answer(entry))
        except UnknownFormatError as error:
            raise UsageError(f"cannot use {name} as a root", shown_text(str(error)), KEPT_BY_NEWER) from error
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise _refused(name, f"line {number} is not part of a recording ({_short(error)})") from error
    if header is None:
        raise _refused(name, "it is empty")
    return header, answers


def _refused(name: str, why: str) -> UsageError:
    return UsageError(f"cannot use {name} as a root", why, "make a new one: zombiescope record FILE")


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:120].replace("\n", " ")


def _header(entry: Any) -> Header:
    if not isinstance(entry, dict):
        raise ValueError(f"the schema is not {SCHEMA}")  # noqa: TRY004 (as for any other line)
    if (found := str(entry.get("schema"))) != SCHEMA:
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
