# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.probes.cgroups import Membership, unified_cgroup

HYBRID = b"9:name=systemd:/s\n4:cpu,memory:/a:b\\012\n0::/system.slice/x.service (deleted)\n"


def test_the_unified_hierarchy_has_a_line_of_its_own() -> None:
    assert unified_cgroup(HYBRID) == Membership(b"/system.slice/x.service", True)


@pytest.mark.parametrize("text", [b"", b"garbage", b"4:memory:/a\n", b"0::\n", b"0:memory:/a\n", b"0::a\n"])
def test_no_such_line_is_none(text: bytes) -> None:
    assert unified_cgroup(text) is None


@given(st.binary(max_size=100))
def test_any_bytes_give_a_membership_or_none(text: bytes) -> None:
    unified_cgroup(text)
