# SPDX-License-Identifier: Apache-2.0
"""Functions of a Go program: its own table of them (.gopclntab), which stays when a program is stripped; and their names, in which
the linker writes a dot of a package's path as %2e. Read in place, hostile files included."""

from __future__ import annotations

import re
import struct
from typing import NamedTuple

import numpy as np

from zombiescope.profiler.stacks.arrays import I64, U64

SECTIONS = (b".gopclntab", b".data.rel.ro.gopclntab")
_GO_1_2, _GO_1_16, _GO_1_18, _GO_1_20 = 0xFFFFFFFB, 0xFFFFFFFA, 0xFFFFFFF0, 0xFFFFFFF1
_MOST_FUNCTIONS = 1 << 22
_ESCAPED = re.compile(r"%([0-9a-f]{2})")


class GoTable(NamedTuple):
    starts: U64
    """Ascending addresses."""
    ends: U64
    name_at: I64
    """From the begin of the file."""


def go_name(name: str) -> str:
    """As the programmer wrote it."""
    return _ESCAPED.sub(lambda match: _sign(match[1]), name) if "%2e" in name else name


def _sign(digits: str) -> str:
    sign = chr(int(digits, 16))
    return sign if sign.isprintable() and sign.isascii() else f"%{digits}"


class GoLayout(NamedTuple):
    many: int
    functions: int
    """Where the table of entries begins."""
    width: int
    """Of an entry's two numbers."""
    names: int
    base: int
    records: int
    """What the second number counts from."""


def go_layout(raw: memoryview, at: int, length: int, text: int) -> GoLayout | None:
    """`at`, `length`: of the table in the file; `text`: where its code begins, if the table does not say. None: it is none."""
    table = raw[at : at + length]
    try:
        found = _layout_in(table, text)
    except struct.error:
        return None
    if found is None or not 0 < found.many <= _MOST_FUNCTIONS:
        return None
    return found if found.functions + (2 * found.many + 1) * found.width <= len(table) else None


def _layout_in(table: memoryview, text: int) -> GoLayout | None:
    magic, zero, _, pointer = struct.unpack_from("<IHBB", table)
    if zero or pointer != 8:
        return None
    if magic in (_GO_1_18, _GO_1_20):
        count, _, text_start, names, _, _, _, functions = struct.unpack_from("<8Q", table, 8)
        return GoLayout(count, functions, 4, names, text_start or text, functions)
    if magic == _GO_1_16:
        count, _, names, _, _, _, functions = struct.unpack_from("<7Q", table, 8)
        return GoLayout(count, functions, 8, names, 0, functions)
    if magic == _GO_1_2:
        (count,) = struct.unpack_from("<Q", table, 8)
        return GoLayout(count, 16, 8, 0, 0, 0)
    return None


def read_go_table(raw: memoryview, at: int, length: int, text: int) -> GoTable | None:
    """As `go_layout`."""
    layout = go_layout(raw, at, length, text)
    try:
        return None if layout is None else _table(raw[at : at + length], at, layout)
    except (ValueError, OverflowError):
        return None


def _table(table: memoryview, at: int, layout: GoLayout) -> GoTable:
    count, width = layout.many, layout.width
    entries = np.frombuffer(table, f"<u{width}", 2 * count + 1, layout.functions).astype(np.int64)
    starts, records = entries[0:-1:2], entries[1::2] + layout.records
    following = entries[2::2]
    inside = (records >= 0) & (records <= len(table) - width - 4) & (starts >= 0) & (following > starts)
    bytes_ = np.frombuffer(table, np.uint8)
    places = records[inside] + width
    offsets = np.zeros(len(places), np.int64)
    for byte in range(4):
        offsets |= bytes_[places + byte].astype(np.int64) << (8 * byte)
    name_at = offsets + layout.names
    known = name_at < len(table)
    starts, ends = starts[inside][known] + layout.base, following[inside][known] + layout.base
    order = np.argsort(starts, kind="stable")
    return GoTable(
        starts[order].astype(np.uint64), ends[order].astype(np.uint64), (name_at[known][order] + at).astype(np.int64)
    )
