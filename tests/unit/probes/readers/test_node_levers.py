# SPDX-License-Identifier: Apache-2.0
"""Which control files a machine has; what a recording did not ask is not the same as a file that is missing."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from tests.build import V2, V2_MOUNT, ScriptedHost

from zombiescope.host.access import NOT_RECORDED
from zombiescope.host.live import LiveHost
from zombiescope.probes.readers.containers import read_pod_volumes
from zombiescope.probes.readers.node import read_layers, read_levers


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


def test_a_layer_that_overlayfs_was_mounted_on_is_a_containers(tmp_path: Path) -> None:
    """As containerd leaves them: an image's has a `work` too, for it was prepared like a container's, and nothing in it."""
    for made in ("4/fs", "4/work", "17/fs", "17/work/work"):
        (tmp_path / "snapshots" / made).mkdir(parents=True)
    folders = [b"/snapshots/4", b"/snapshots/17", b"/snapshots/99"]
    assert read_layers(LiveHost(os.fsencode(tmp_path)), folders) == {b"/snapshots/4": False, b"/snapshots/17": True}
    assert read_layers(Unasked({}), folders) == {}


def test_what_kubelet_mounted_for_a_pod_is_known_by_the_machines_own_table() -> None:
    place = b"/var/lib/kubelet/pods/0fdb6e76-0d5b-4a3a-8a6a-7b6f0c8e1d2a/volumes/kubernetes.io~empty-dir/d"
    table = b"30 1 8:1 / / rw - ext4 /dev/sda1 rw\n31 30 0:77 / %s rw - tmpfs tmpfs rw\n" % place
    bound = b"32 30 8:1 /data %s-too rw - ext4 /dev/sda1 rw\n33 30 0:78\nrubbish\n" % place
    assert read_pod_volumes(ScriptedHost({b"/proc/1/mountinfo": table + bound})) == {"0:77": place}
    assert read_pod_volumes(ScriptedHost({})) == {}
