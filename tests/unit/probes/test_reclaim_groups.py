# SPDX-License-Identifier: Apache-2.0
"""Whose tasks reclaimed, and which of those above them have a limit."""

from __future__ import annotations

from tests.build import V1, V1_MOUNT, V2, V2_MOUNT, ScriptedHost

from zombiescope.probes.readers.reclaim_rates import named_groups


def test_those_above_with_a_limit_are_named_on_v2() -> None:
    files = {
        V2_MOUNT + b"/node/memory.max": b"1048576\n",
        V2_MOUNT + b"/node/a/memory.max": b"max\n",
        V2_MOUNT + b"/node/a/memory.high": b"4096\n",
        V2_MOUNT + b"/node/a/b/memory.max": b"max\n",
    }
    host = ScriptedHost(files, inodes={V2_MOUNT + b"/node/a/b": 77, V2_MOUNT + b"/node": 5})
    rows = named_groups(host, V2, {77: (10, 20, 0.5), 5: (1, 2, 0.9), 99: (3, 4, 0.1)})
    assert rows == [["/node", ["/node"], 1, 2, 0.9], ["/node/a/b", ["/node/a", "/node"], 10, 20, 0.5]]


def test_the_largest_number_of_v1_is_no_limit() -> None:
    files = {
        V1_MOUNT + b"/node/memory.limit_in_bytes": b"9223372036854771712\n",
        V1_MOUNT + b"/node/x/memory.limit_in_bytes": b"garbage\n",
    }
    host = ScriptedHost(files, inodes={V1_MOUNT + b"/node/x": 8})
    assert named_groups(host, V1, {8: (1, 1, 0.1)}) == [["/node/x", [], 1, 1, 0.1]]
    assert named_groups(host, V1, {}) == []
    assert named_groups(ScriptedHost({}), V1, {8: (1, 1, 0.1)}) == []
