# SPDX-License-Identifier: Apache-2.0
"""A stored capture without numpy: its heading alone, for whoever only wants to know when it was taken; the whole of it as one line
of JSON, to travel in a recording, and back (its words can be read and replaced on the way, its columns of numbers stay); and how
it is put together, of columns as planes of bytes, for whoever has them in another form."""

import json
import re
import struct
import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import log2
from typing import IO, Any, NamedTuple

from zombiescope.errors import UnknownFormatError, unknown_format
from zombiescope.profiler.stacks.about import About

MAGIC = b"ZSCAPT01"
FAMILY = MAGIC[:6]
"""What every format of it begins with."""
SCHEMA = "zombiescope.capture/1"
LEAD = struct.Struct("<8sI")
MOST_HEADING_BYTES = 16 << 20
TEXTS = "texts"


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
    lost: int = 0
    """Samples that the recorder could not take."""


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


def columns_of(buffer: memoryview, heading: dict[str, Any], at: int) -> Iterator[tuple[dict[str, Any], memoryview]]:
    """What the heading says of each, and the column."""
    for entry in heading["columns"]:
        yield entry, buffer[at : at + int(entry["bytes"])]
        at += int(entry["bytes"])


def checked(packed: memoryview, entry: dict[str, Any]) -> memoryview:
    if len(packed) != entry["bytes"] or zlib.crc32(packed) != entry["crc"]:
        raise ValueError(f"column {entry['name']} does not have its checksum")
    return packed


def texts_in(packed: memoryview, entry: dict[str, Any], most: int) -> dict[str, Any]:
    texts: dict[str, Any] = json.loads(zlib.decompressobj().decompress(checked(packed, entry), most))
    return texts


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
    lost = int(about.get("lost", 0))
    return Span((offset + first) / 1e9, end, rows, ring, serial, boot, first, last, offset, lost)


def span_of_file(file: IO[bytes]) -> Span:
    """Of one that is open. Raises as `read_span` does."""
    lead = file.read(LEAD.size)
    if len(lead) < LEAD.size:
        raise ValueError(f"it has {len(lead)} bytes")
    _, length = LEAD.unpack(lead)
    return read_span(lead + file.read(min(length, MOST_HEADING_BYTES)))


DAMAGE = (
    OSError, ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError, struct.error, zlib.error
)  # fmt: skip
"""What reading a stranger's capture may raise."""


_MOST_TEXT_BYTES = 64 << 20
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,120}")
_MOMENT = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_ABOUT_WORDS = ("source", "host", "kernel", "ring", "boot")
Change = Callable[[str], str]


def taken_apart(name: str, raw: bytes, change: Change, functions: frozenset[str]) -> bytes:
    """`change` is given every word but the kernel's own functions. Raises what a damaged capture makes it raise (`DAMAGE`)."""
    heading, at = read_heading(memoryview(raw))
    columns, pieces, texts = list[dict[str, Any]](), list[memoryview](), dict[str, Any]()
    for entry, packed in columns_of(memoryview(raw), heading, at):
        if entry["name"] == TEXTS:
            texts = texts_in(packed, entry, _MOST_TEXT_BYTES)
        else:
            columns.append(entry)
            pieces.append(checked(packed, entry))
    told = {
        "capture": name,
        "about": _about(heading["about"], change),
        "columns": columns,
        TEXTS: _texts(texts, change, functions),
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
    columns = [each for each in entry["columns"] if each["name"] != TEXTS]
    packed = b64decode(entry["packed"], validate=True)
    return name, b"".join(_file(entry["about"], columns, [packed], entry[TEXTS]))


def safe_name(name: str, number: int, change: Change) -> str:
    """Under which it travels: a moment as it is, another with its words replaced, a number where that could not be a file's."""
    fresh = name if _MOMENT.fullmatch(name) else change(name)
    return fresh if _NAME.fullmatch(fresh) else f"capture-{number}"


_LEVEL = 1
_NO_REPEATS = ("time", "node", "thread", "tree_rest")
"""Columns in which looking for repeated stretches costs time and finds little."""
_NOISE_BITS = 6.4
PROBED_BYTES = 1 << 14
"""In the middle of a plane: by these it is told whether it looks like noise."""
Packed = tuple[dict[str, Any], bytes]


class Plane(NamedTuple):
    """One byte of every number of a column."""

    content: memoryview
    counts: Sequence[int]
    """How often each byte is among those probed."""


class Ascending(NamedTuple):
    first: int
    last: int


def column(name: str, rows: int, planes: Sequence[Plane], ends: Ascending | None = None) -> Packed:
    """Of the differences, the first of which is 0, where its ends are told."""
    packed = _deflate(planes, zlib.Z_RLE if name in _NO_REPEATS else zlib.Z_DEFAULT_STRATEGY)
    entry = {
        "form": "deflate",
        "name": name,
        "rows": rows,
        "width": len(planes),
        "ascends": ends is not None,
        "first": 0 if ends is None else ends.first,
        "bytes": len(packed),
        "crc": zlib.crc32(packed),
    }
    return entry if ends is None else {**entry, "last": ends.last}, packed


def _deflate(planes: Sequence[Plane], strategy: int) -> bytes:
    """One stream of several packers, each ended at a byte: what looks like noise is stored as it is, which costs no time."""
    pieces = []
    for number, plane in enumerate(planes):
        level = 0 if _is_noise(plane.counts) else _LEVEL
        packer = zlib.compressobj(level, wbits=-zlib.MAX_WBITS, strategy=strategy)
        how = zlib.Z_FINISH if number == len(planes) - 1 else zlib.Z_FULL_FLUSH
        pieces += [packer.compress(plane.content), packer.flush(how)]
    return b"".join(pieces)


def _is_noise(counts: Sequence[int]) -> bool:
    total = sum(counts)
    if total < PROBED_BYTES:
        return False
    return log2(total) - sum(count * log2(count) for count in counts if count) / total > _NOISE_BITS


def pieces_of(about: About, columns: Iterable[Packed], texts: dict[str, Any]) -> Iterator[bytes]:
    entries, packed = zip(*columns, strict=True)
    clock = None if about.clock is None else about.clock._asdict()
    told = {**about._asdict(), "clock": clock, "gaps": [gap._asdict() for gap in about.gaps]}
    return _file(told, entries, packed, texts)


def _file(
    about: dict[str, Any], entries: Iterable[dict[str, Any]], packed: Iterable[bytes], texts: dict[str, Any]
) -> Iterator[bytes]:
    text = zlib.compress(json.dumps(texts, separators=(",", ":")).encode(), _LEVEL)
    told = {"name": TEXTS, "bytes": len(text), "crc": zlib.crc32(text)}
    heading = json.dumps({"schema": SCHEMA, "about": about, "columns": [*entries, told]}).encode()
    yield LEAD.pack(MAGIC, len(heading))
    yield heading
    yield from packed
    yield text


def frame_texts(names: Sequence[str], files: Sequence[str]) -> dict[str, list[Any]]:
    each = sorted(set(files))
    number = {name: index for index, name in enumerate(each)}
    return {"names": list(names), "files": each, "file_of": [number[name] for name in files]}
