# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno

import pytest
from tests.build import ScriptedHost, proc_cgroups

from zombiescope.facts.gap import Gap
from zombiescope.probes.cgroups import ControllerRow, read_controller_row


def row(content: bytes | int) -> ControllerRow | Gap:
    return read_controller_row(ScriptedHost({b"/proc/cgroups": content}))


def test_a_row() -> None:
    assert row(proc_cgroups(21, hierarchy=7)) == ControllerRow(7, 21, is_enabled=True)
    assert row(proc_cgroups(1, enabled=0)) == ControllerRow(4, 1, is_enabled=False)


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "empty or not in a form"),
        (b"\xff\x00garbage", "empty or not in a form"),
        (proc_cgroups(None), "has no memory row"),
        (b"#subsys_name\nmemory\t4\tmany\t1\n", r"not readable: memory\x094\x09many\x091"),
        (b"#subsys_name\nmemory\t4\t-1\t1\n", "not readable"),
        (b"#subsys_name\nmemory\t4", "has no memory row"),
        (errno.ENOENT, "no such file"),
    ],
)
def test_what_is_not_a_row_is_a_gap_and_not_zero(content: bytes | int, why: str) -> None:
    gap = row(content)
    assert isinstance(gap, Gap)
    assert gap.fact == "memcg.counted"
    assert why in gap.reason


def test_a_giant_row_is_not_repeated_in_full() -> None:
    gap = row(b"#subsys_name\nmemory\t" + b"9" * 100_000 + b"\t1\t1\n")
    assert isinstance(gap, Gap)
    assert len(gap.reason) < 300
