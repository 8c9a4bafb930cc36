# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import errno

from tests.build import V1, V1_MOUNT, V2, V2_MOUNT, ScriptedHost

from zombiescope.facts.gap import Gap
from zombiescope.facts.page_pins import DirtyResidual, WritebackTrace
from zombiescope.probes.readers.memcg_residual import read_writeback_trace


def v1_stat(dirty: int, writeback: int, total_dirty: int, total_writeback: int) -> bytes:
    return b"dirty %d\nwriteback %d\ntotal_dirty %d\ntotal_writeback %d\n" % (
        dirty,
        writeback,
        total_dirty,
        total_writeback,
    )


def test_v1_takes_away_the_parents_own_and_its_childrens() -> None:
    host = ScriptedHost(
        {
            V1_MOUNT + b"/a/memory.stat": v1_stat(100, 10, 1000, 60),
            V1_MOUNT + b"/a/b/memory.stat": v1_stat(1, 1, 300, 20),
            V1_MOUNT + b"/c/memory.stat": v1_stat(5, 0, 5, 0),
        }
    )
    assert read_writeback_trace(host, V1, [b"/a", b"/c"]) == WritebackTrace({b"/a": DirtyResidual(600, 30)})


def test_v2_has_no_own_figure() -> None:
    host = ScriptedHost(
        {
            V2_MOUNT + b"/a/memory.stat": b"file_dirty 500\nfile_writeback 0\n",
            V2_MOUNT + b"/a/b/memory.stat": b"file_dirty 800\nfile_writeback 0\n",
            V2_MOUNT + b"/c/memory.stat": b"file_dirty 7\nfile_writeback 3\n",
        }
    )
    assert read_writeback_trace(host, V2, [b"/a", b"/c"]) == WritebackTrace({b"/c": DirtyResidual(7, 3)})


def test_what_cannot_be_read_is_a_gap() -> None:
    host = ScriptedHost(
        {
            V2_MOUNT + b"/a/memory.stat": b"\xff garbage",
            V2_MOUNT + b"/b/memory.stat": errno.EACCES,
            V2_MOUNT + b"/c/memory.stat": b"file_dirty 7\nfile_writeback 3\n",
        }
    )
    assert isinstance(read_writeback_trace(host, V2, [b"/a", b"/b"]), Gap)
    found = read_writeback_trace(host, V2, [b"/a", b"/c"])
    assert isinstance(found, WritebackTrace) and found.by_parent.keys() == {b"/c"} and len(found.gaps) == 1
    assert read_writeback_trace(host, V2, []) == WritebackTrace({})
