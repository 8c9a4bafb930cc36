# SPDX-License-Identifier: Apache-2.0
"""Events that a person gives: several spellings of a time; a line that is none is refused with its number."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.analysis.event_file import parse_events
from zombiescope.errors import UsageError


def test_every_spelling_of_a_time() -> None:
    text = b"""# failures
2023-11-14T22:13:20Z job 17
2023-11-14T22:13:21 job 18
1700000002.5 job 19

{"at": 1700000003, "what": "job 20"}
{"at": "2023-11-14T22:13:24+00:00", "what": "job 21"}
"""
    marks = parse_events(text, "x")
    assert [mark.at - 1_700_000_000 for mark in marks] == [0, 1, 2.5, 3, 4]
    assert [mark.detail for mark in marks] == [f"job {number}" for number in range(17, 22)]


@pytest.mark.parametrize(
    "line", [b"yesterday job", b"{}", b'{"at": true}', b"{", b"nan x", b"-5 x", b"1e99 x", b"\xff\xfe"]
)
def test_a_line_without_a_time_is_refused_with_its_number(line: bytes) -> None:
    with pytest.raises(UsageError, match="cannot use x") as refused:
        parse_events(b"1700000000 fine\n" + line, "x")
    assert "line 2" in refused.value.why


@given(st.binary(max_size=200))
def test_any_bytes_are_events_or_refused(text: bytes) -> None:
    try:
        marks = parse_events(text, "x")
    except UsageError:
        return
    assert all(mark.detail.isprintable() for mark in marks)
