# SPDX-License-Identifier: Apache-2.0
"""A stored capture as one line of JSON, to travel in a recording, and back: its words can be read and replaced on the way, its
columns of numbers stay as they are. Without numpy."""

from __future__ import annotations

import json
import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

from zombiescope.profiler.formats.capture_heading import LEAD, MAGIC, SCHEMA, read_heading

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
