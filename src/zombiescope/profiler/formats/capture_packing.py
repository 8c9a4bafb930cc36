# SPDX-License-Identifier: Apache-2.0
"""How a stored capture is put together: its heading, its columns as planes of bytes, its texts. Without numpy, for whoever has the
columns in another form."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from math import log2
from typing import Any, NamedTuple

from zombiescope.profiler.formats.capture_heading import LEAD, MAGIC, SCHEMA
from zombiescope.profiler.stacks.about import About

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
        pieces += [packer.compress(plane.content)]
        pieces += [packer.flush(zlib.Z_FINISH if number == len(planes) - 1 else zlib.Z_FULL_FLUSH)]
    return b"".join(pieces)


def _is_noise(counts: Sequence[int]) -> bool:
    total = sum(counts)
    if total < PROBED_BYTES:
        return False
    return log2(total) - sum(count * log2(count) for count in counts if count) / total > _NOISE_BITS


def pieces_of(about: About, columns: Iterable[Packed], texts: dict[str, list[Any]]) -> Iterator[bytes]:
    """The file."""
    columns = list(columns)
    text = zlib.compress(json.dumps(texts, separators=(",", ":")).encode(), _LEVEL)
    columns.append(({"name": "texts", "bytes": len(text), "crc": zlib.crc32(text)}, text))
    heading = json.dumps(
        {"schema": SCHEMA, "about": about_document(about), "columns": [entry for entry, _ in columns]}
    ).encode()
    yield LEAD.pack(MAGIC, len(heading))
    yield heading
    for _, packed in columns:
        yield packed


def frame_texts(names: Sequence[str], files: Sequence[str]) -> dict[str, list[Any]]:
    each = sorted(set(files))
    number = {name: index for index, name in enumerate(each)}
    return {"names": list(names), "files": each, "file_of": [number[name] for name in files]}


def about_document(about: About) -> dict[str, Any]:
    clock = about.clock
    return {
        "source": about.source,
        "host": about.host,
        "kernel": about.kernel,
        "clock": None if clock is None else clock._asdict(),
        "rate_hz": about.rate_hz,
        "lost": about.lost,
        "throttled": about.throttled,
        "has_time": about.has_time,
        "gaps": [gap._asdict() for gap in about.gaps],
        "ring": about.ring,
        "serial": about.serial,
        "boot": about.boot,
    }
