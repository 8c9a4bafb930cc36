# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.build import ScriptedHost

from zombiescope.facts.gap import Gap
from zombiescope.probes.kernel_text import ProcessState, parse_stat, read_processes


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"7 (sh) Z 3 7 7", ProcessState(b"sh", "Z", 3)),
        (b"7 (a) b) (c) S 12 0", ProcessState(b"a) b) (c", "S", 12)),
        (b"7 (new\nline) R 1 1", ProcessState(b"new\nline", "R", 1)),
        (b"", None),
        (b"7 (cut", None),
        (b"7 (sh) Z", None),
        (b"7 (sh) Z minus", None),
    ],
)
def test_the_last_bracket_ends_the_name(text: bytes, expected: ProcessState | None) -> None:
    assert parse_stat(text) == expected


@given(st.binary(max_size=80))
def test_any_bytes_give_a_state_or_none(text: bytes) -> None:
    parse_stat(text)


def test_only_folders_that_are_numbers_are_processes() -> None:
    host = ScriptedHost({b"/proc/12/stat": b"", b"/proc/3/stat": b"", b"/proc/sys/kernel/x": b""})
    assert read_processes(host, "zombies[].pins") == [3, 12]


def test_no_proc_is_a_gap() -> None:
    for files in ({b"/etc/x": b""}, {b"/proc/sys/x": b""}):
        found = read_processes(ScriptedHost(files), "zombies[].pins")
        assert isinstance(found, Gap) and found.fact == "zombies[].pins" and found.reason
