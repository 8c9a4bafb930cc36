# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.facts.cores import CoreLook
from zombiescope.facts.gap import Gap
from zombiescope.host.live import TreeHost
from zombiescope.probes.readers.cpu_time import parse_cpu_time, read_cpu_time

TEXT = b"""cpu  581917 825858 254384 778534 8009 0 3884 11695 7 0
cpu0 272010 411722 119401 420806 1711 0 352 5731 7 0
cpu7 309907 414135 134983 357727 6297 1 3532 5963 0 0
intr 14519854 0 0
ctxt 5
"""


def test_every_core_with_its_counters_and_not_their_sum() -> None:
    assert parse_cpu_time(TEXT) == {
        0: (272010, 411722, 119401, 420806, 1711, 0, 352, 5731),
        7: (309907, 414135, 134983, 357727, 6297, 1, 3532, 5963),
    }


def test_counters_that_an_old_kernel_does_not_keep_are_nought() -> None:
    assert parse_cpu_time(b"cpu0 1 2 3 4\n") == {0: (1, 2, 3, 4, 0, 0, 0, 0)}


def test_two_hundred_cores() -> None:
    found = parse_cpu_time(b"".join(b"cpu%d 1 0 1 9 0 0 0 0 0 0\n" % core for core in range(192)) + b"intr 1\n")
    assert isinstance(found, dict)
    assert list(found) == list(range(192))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"", "names no core"),
        (b"cpu  1 2 3 4\nintr 5\n", "names no core"),
        (b"cpu0 1 2 3\n", "not a core's: cpu0 1 2 3"),
        (b"cpu0 1 2 x 4\n", "not a core's"),
        (b"cpu0 1 -2 3 4\n", "not a core's"),
        (b"cpux 1 2 3 4\n", "not a core's"),
        (b"cpu-1 1 2 3 4\n", "not a core's"),
        (b"cpu0 1 2 3 99999999999999999999999\n", "not a core's"),
        (b"cpu0\x1b[31m 1 2 3 4\n", r"not a core's: cpu0\\x1b[31m"),
    ],
)
def test_what_is_not_a_core_is_said(text: bytes, reason: str) -> None:
    found = parse_cpu_time(text)
    assert isinstance(found, Gap)
    assert reason.replace("\\\\", "\\") in found.reason


@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda tail: b"cpu0 " + tail))
def test_any_bytes_give_counters_or_a_gap(text: bytes) -> None:
    assert isinstance(parse_cpu_time(text), dict | Gap)


def test_absent_and_present(tmp_path: Path) -> None:
    host = TreeHost(bytes(tmp_path))
    missing = read_cpu_time(host)
    assert isinstance(missing, Gap)
    assert missing.fact == "cores"
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_bytes(TEXT)
    look = read_cpu_time(host)
    assert isinstance(look, CoreLook)
    assert set(look.cores) == {0, 7}
