# SPDX-License-Identifier: Apache-2.0
"""A stored capture without numpy: its heading alone, for whoever only wants to know when it was taken; and the whole of it as one
line of JSON, to travel in a recording, and back. Its words can be read and replaced on the way, its columns of numbers stay."""

from __future__ import annotations

import json
import re
import struct
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import IO, Any, NamedTuple

from zombiescope.errors import UnknownFormatError, unknown_format

MAGIC = b"ZSCAPT01"
FAMILY = MAGIC[:6]
"""What every format of it begins with."""
SCHEMA = "zombiescope.capture/1"
LEAD = struct.Struct("<8sI")
MOST_HEADING_BYTES = 16 << 20


class Span(NamedTuple):
    begin: float | None
    """Seconds since the epoch, where the capture tells."""
    end: float | None
    samples: int
    ring: str
    """The mark of the rolling recording that stored it."""
    serial: int = 0
    """Which segment of its ring it is, from 1 on; 0: not of a ring that counts."""
    boot: str = ""
    first_ns: int | None = None
    """On the steady clock of that boot."""
    last_ns: int | None = None
    lead_ns: int = 0
    """The wall clock before the steady one: by two captures of one boot a clock that was set is seen."""


def read_heading(buffer: memoryview) -> tuple[dict[str, Any], int]:
    """And where the columns begin. Raises ValueError."""
    if len(buffer) < LEAD.size:
        raise ValueError(f"it has {len(buffer)} bytes")
    magic, length = LEAD.unpack_from(buffer)
    if magic != MAGIC and magic.startswith(FAMILY):
        raise UnknownFormatError(unknown_format(magic.decode("ascii", "replace"), MAGIC.decode()))
    if magic != MAGIC or length > MOST_HEADING_BYTES:
        raise ValueError("it does not begin as a stored capture does")
    heading = json.loads(bytes(buffer[LEAD.size : LEAD.size + length]))
    if not isinstance(heading, dict):
        raise ValueError(f"its schema is not {SCHEMA}")  # noqa: TRY004 (as for any other heading)
    if (found := str(heading.get("schema"))) != SCHEMA:
        is_later = found.startswith(SCHEMA.rpartition("/")[0])
        raise (UnknownFormatError if is_later else ValueError)(unknown_format(found[:60], SCHEMA))
    return heading, LEAD.size + length


def read_span(buffer: bytes | memoryview) -> Span:
    """Raises what a stranger's heading makes it raise: ValueError, KeyError, TypeError and their like."""
    heading, _ = read_heading(memoryview(buffer))
    time = next((each for each in heading["columns"] if each["name"] == "time"), {"rows": 0})
    about, rows, last = heading["about"], int(time["rows"]), time.get("last")
    clock, ring = about["clock"], str(about.get("ring", ""))
    serial, boot = int(about.get("serial", 0)), str(about.get("boot", ""))
    if clock is None or not rows:
        return Span(None, None, rows, ring, serial, boot)
    offset, first = int(clock["wall_ns"]) - int(clock["sample_ns"]), int(time["first"])
    last = last if isinstance(last, int) else None
    end = None if last is None else (offset + last) / 1e9
    return Span((offset + first) / 1e9, end, rows, ring, serial, boot, first, last, offset)


def span_of_file(file: IO[bytes]) -> Span:
    """Of one that is open. Raises as `read_span` does."""
    lead = file.read(LEAD.size)
    if len(lead) < LEAD.size:
        raise ValueError(f"it has {len(lead)} bytes")
    _, length = LEAD.unpack(lead)
    return read_span(lead + file.read(min(length, MOST_HEADING_BYTES)))


DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, struct.error)
"""What reading a heading of a stranger's file may raise."""


_MOST_TEXT_BYTES = 64 << 20
_TEXTS = "texts"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,120}")
_MOMENT = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_ABOUT_WORDS = ("source", "host", "kernel", "ring", "boot")
Change = Callable[[str], str]


def taken_apart(name: str, raw: bytes, change: Change, functions: frozenset[str]) -> bytes:
    """`change` is given every word but the kernel's own functions. Raises what a damaged capture makes it raise (`DAMAGE`)."""
    heading, at = read_heading(memoryview(raw))
    columns: list[dict[str, Any]] = []
    pieces: list[bytes] = []
    texts: dict[str, Any] = {}
    for entry in heading["columns"]:
        packed = raw[at : at + int(entry["bytes"])]
        at += int(entry["bytes"])
        if zlib.crc32(packed) != entry["crc"]:
            raise ValueError(f"column {entry['name']} does not have its checksum")
        if entry["name"] == _TEXTS:
            texts = json.loads(zlib.decompressobj().decompress(packed, _MOST_TEXT_BYTES))
        else:
            columns.append(entry)
            pieces.append(packed)
    told = {
        "capture": name,
        "about": _about(heading["about"], change),
        "columns": columns,
        _TEXTS: _texts(texts, change, functions),
        "packed": b64encode(b"".join(pieces)).decode("ascii"),
    }
    return json.dumps(told, separators=(",", ":")).encode()


def _about(about: dict[str, Any], change: Change) -> dict[str, Any]:
    words = {name: change(str(about[name])) for name in _ABOUT_WORDS if about.get(name)}
    gaps = [{name: change(str(text)) for name, text in gap.items()} for gap in about["gaps"]]
    return {**about, **words, "gaps": gaps}


def _texts(texts: dict[str, Any], change: Change, functions: frozenset[str]) -> dict[str, Any]:
    names = [name if name in functions else change(str(name)) for name in texts["names"]]
    others = {field: [change(str(text)) for text in texts[field]] for field in ("files", "comms", "events", "cgroups")}
    return {**others, "names": names, "file_of": texts["file_of"]}


def put_together(line: bytes) -> tuple[str, bytes]:
    """The name and the file. Raises what a stranger's line makes it raise; whoever opens the file checks what is in it."""
    entry = json.loads(line)
    name = entry["capture"]
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError("a name that no capture has")
    text = zlib.compress(json.dumps(entry[_TEXTS], separators=(",", ":")).encode(), 1)
    told = {"name": _TEXTS, "bytes": len(text), "crc": zlib.crc32(text)}
    columns = [each for each in entry["columns"] if each["name"] != _TEXTS]
    heading = json.dumps({"schema": SCHEMA, "about": entry["about"], "columns": [*columns, told]}).encode()
    return name, b"".join((LEAD.pack(MAGIC, len(heading)), heading, b64decode(entry["packed"], validate=True), text))


def safe_name(name: str, number: int, change: Change) -> str:
    """Under which it travels: a moment as it is, another with its words replaced, a number where that could not be a file's."""
    fresh = name if _MOMENT.fullmatch(name) else change(name)
    return fresh if _NAME.fullmatch(fresh) else f"capture-{number}"
