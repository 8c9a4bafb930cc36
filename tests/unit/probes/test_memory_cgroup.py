# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.build import V1, V2

from zombiescope.probes.cgroups import Membership, memory_cgroup, unified_cgroup

HYBRID = b"9:name=systemd:/s\n4:cpu,memory:/a:b\\012\n0::/system.slice/x.service (deleted)\n"


def test_each_version_has_its_line() -> None:
    assert memory_cgroup(HYBRID, V1) == Membership(b"/a:b\\012", False)
    assert memory_cgroup(HYBRID, V2) == Membership(b"/system.slice/x.service", True)
    assert unified_cgroup(HYBRID) == Membership(b"/system.slice/x.service", True)


@pytest.mark.parametrize("text", [b"", b"garbage", b"4:memoryx:/a\n", b"4:memory\n", b"0:memory:/a\n", b"4:memory:a\n"])
def test_no_line_of_memory_is_none(text: bytes) -> None:
    assert memory_cgroup(text, V1) is None


@given(st.binary(max_size=100))
def test_any_bytes_give_a_membership_or_none(text: bytes) -> None:
    memory_cgroup(text, V1)
    memory_cgroup(text, V2)
