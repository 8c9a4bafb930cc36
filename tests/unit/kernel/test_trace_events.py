# SPDX-License-Identifier: Apache-2.0
"""Pages of the kernel's ring buffer, whole and damaged."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from zombiescope.kernel.ledgers import Event, EventFormat, Field, PageReader, parse_event_format

HEADER_PAGE = b"""\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:1;
"""
FORMAT = b"""name: cgroup_mkdir
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:int root;\toffset:8;\tsize:4;\tsigned:1;
\tfield:u64 id;\toffset:16;\tsize:8;\tsigned:0;
\tfield:__data_loc char[] path;\toffset:24;\tsize:4;\tsigned:0;
"""


def record(path: bytes, number: int = 7) -> bytes:
    text = path + b"\0"
    body = struct.pack("<HHiiiQI", 300, 0, 0, 4, 1, number, len(text) << 16 | 28) + text
    body += bytes(-len(body) % 4)
    return (
        struct.pack("<II", 0, len(body) + 4) + body
        if len(body) > 112
        else struct.pack("<I", len(body) // 4 | 1 << 5) + body
    )


def page(*records: bytes) -> bytes:
    content = b"".join(records)
    return struct.pack("<QQ", 1000, len(content)) + content


def reader() -> PageReader:
    form = parse_event_format(FORMAT)
    assert form == EventFormat(Field(16, 8), Field(24, 4))
    return PageReader(HEADER_PAGE, {300: (0, form)})


def test_short_and_long_events_and_time_extensions() -> None:
    extend = struct.pack("<II", 30 | 5 << 5, 1)
    found = list(reader().events(page(record(b"/a"), extend, record(b"/" + b"x" * 200, 9))))
    assert found == [Event(0, 7, b"/a", 1001), Event(0, 9, b"/" + b"x" * 200, 1001 + (1 << 27) + 5)]
    assert reader().page_bytes == 4096


def test_padding_ends_a_page_or_is_stepped_over() -> None:
    hole = struct.pack("<II", 29 | 1 << 5, 8) + bytes(4)
    assert [event.path for event in reader().events(page(hole, record(b"/b")))] == [b"/b"]
    assert list(reader().events(page(struct.pack("<I", 29), record(b"/b")))) == []


@given(st.binary(max_size=300))
def test_any_bytes_end_without_an_error(content: bytes) -> None:
    list(reader().events(content))
    list(reader().events(page(content)))


@given(st.binary(max_size=200))
def test_a_format_we_do_not_know_is_none(text: bytes) -> None:
    assert parse_event_format(text) is None
