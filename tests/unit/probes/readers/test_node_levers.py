# SPDX-License-Identifier: Apache-2.0
"""Which control files a machine has; what a recording did not ask is not the same as a file that is missing."""

from __future__ import annotations

import errno

from tests.build import V2, V2_MOUNT, ScriptedHost

from zombiescope.host.access import NOT_RECORDED
from zombiescope.probes.readers.node import read_levers


class Unasked(ScriptedHost):
    def inode(self, path: bytes) -> int | None:
        if path.startswith(V2_MOUNT + b"/old/"):
            raise OSError(errno.ENOENT, NOT_RECORDED, path)
        if path.endswith(b"/memory.reclaim"):
            return 7
        raise OSError(errno.ENOENT, "No such file or directory", path)


def test_a_parent_of_which_a_recording_tells_nothing_is_untold() -> None:
    levers = read_levers(Unasked({}), V2, [b"/old", b"/new"])
    assert levers.untold == {b"/old"}
    assert levers.control_files == {V2_MOUNT + b"/new/memory.reclaim"}
    assert "levers.control_files" in {gap.fact for gap in levers.gaps}
