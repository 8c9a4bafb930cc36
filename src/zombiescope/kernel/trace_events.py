# SPDX-License-Identifier: Apache-2.0
"""Decodes pages of the kernel's ring buffer (`trace_pipe_raw`) into cgroup events, by the formats that tracefs itself describes."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

_FIELD = re.compile(rb"field:(.*?);\s*offset:(\d+);\s*size:(\d+);")
_PADDING, _EXTEND, _STAMP = 29, 30, 31
_COMMIT_MASK = 0xFFFFF
_WORD = struct.Struct("<I")


class Field(NamedTuple):
    offset: int
    size: int


class EventFormat(NamedTuple):
    id: Field
    path: Field


class Event(NamedTuple):
    kind: int
    id: int
    path: bytes
    stamp_ns: int


def parse_fields(text: bytes) -> dict[bytes, Field]:
    """By the last word of each declaration, without brackets."""
    return {
        declaration.split()[-1].partition(b"[")[0]: Field(int(offset), int(size))
        for declaration, offset, size in _FIELD.findall(text)
    }


def parse_event_format(text: bytes) -> EventFormat | None:
    fields = parse_fields(text)
    return EventFormat(fields[b"id"], fields[b"path"]) if b"id" in fields and b"path" in fields else None


class PageReader:
    """`kinds`: the number of an event type in the ring buffer -> our kind and its format."""

    def __init__(self, header_page: bytes, kinds: dict[int, tuple[int, EventFormat]]) -> None:
        fields = parse_fields(header_page)
        self._commit, self._data = fields[b"commit"], fields[b"data"]
        self._kinds = kinds

    @property
    def page_bytes(self) -> int:
        return self._data.offset + self._data.size

    def events(self, page: bytes) -> Iterator[Event]:
        """Of a whole page; a damaged one ends where it makes no sense."""
        with suppress(struct.error):
            (commit,) = _WORD.unpack_from(page, self._commit.offset)
            content = page[: self._data.offset + (commit & _COMMIT_MASK)]
            for record, stamp in self._records(content):
                event = self._event(record, stamp)
                if event:
                    yield event

    def _records(self, page: bytes) -> Iterator[tuple[bytes, int]]:
        (stamp,) = struct.unpack_from("<Q", page)
        at = self._data.offset
        while at < len(page):
            (header,) = _WORD.unpack_from(page, at)
            kind, delta = header & 31, header >> 5
            at += 4
            if kind >= _EXTEND:
                later = (_WORD.unpack_from(page, at)[0] << 27) + delta
                stamp, at = (stamp + later if kind == _EXTEND else later), at + 4
                continue
            stamp += delta
            size = kind * 4
            if kind in (0, _PADDING):
                (size,) = _WORD.unpack_from(page, at)
            if kind == _PADDING and delta == 0:
                return
            start = at + 4 if kind == 0 else at
            at += max(size, 4)
            if kind != _PADDING and at <= len(page):
                yield page[start:at], stamp

    def _event(self, record: bytes, stamp: int) -> Event | None:
        known = self._kinds.get(int.from_bytes(record[:2], "little"))
        if known is None:
            return None
        kind, form = known
        place = int.from_bytes(record[form.path.offset : form.path.offset + 4], "little")
        start, size = place & 0xFFFF, place >> 16
        number = int.from_bytes(record[form.id.offset : form.id.offset + form.id.size], "little")
        return Event(kind, number, record[start : start + size].partition(b"\0")[0], stamp)
