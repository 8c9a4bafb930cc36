# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.probes.mount_table import Mount, MountTable, path_in

TABLE = MountTable(
    rb"""1 0 8:1 / / rw - ext4 /dev/sda1 rw
2 1 0:5 / /dev rw - devtmpfs dev rw
3 2 0:6 / /dev/shm rw shared:3 - tmpfs tmpfs rw
4 2 0:7 / /dev/shm rw - tmpfs tmpfs rw
5 1 0:8 /part /mnt/with\040space rw - tmpfs tmpfs rw
6 1 0:4 cgroup:[4026532000] /run/ns rw - nsfs nsfs rw
"""
)


@pytest.mark.parametrize(
    ("path", "device"),
    [(b"/", "8:1"), (b"/etc/x", "8:1"), (b"/dev/shm", "0:7"), (b"/dev/shm/a/b", "0:7"), (b"/dev/shmx", "0:5")],
)
def test_a_path_lies_on_the_nearest_mount(path: bytes, device: str) -> None:
    mount = TABLE.of(path)
    assert mount is not None and mount.device == device


def test_a_later_mount_on_the_same_point_covers_the_earlier() -> None:
    covered = {mount.device for mount in TABLE.mounts if TABLE.is_covered(mount)}
    assert covered == {"0:6"}


def test_what_is_mounted_may_be_a_part_or_no_folder_at_all() -> None:
    part, namespace = TABLE.mounts[4], TABLE.mounts[5]
    assert part == Mount("0:8", b"/part", b"/mnt/with space", "tmpfs")
    assert path_in(part, b"/mnt/with space/a") == b"/part/a"
    assert path_in(TABLE.mounts[0], b"/a/b") == b"/a/b"
    assert namespace.root == b"cgroup:[4026532000]" and namespace.fstype == "nsfs"


def test_a_path_outside_every_mount_lies_nowhere() -> None:
    assert MountTable(b"").of(b"/a") is None
    assert MountTable(b"").of(b"") is None
    assert TABLE.of(b"relative") is None


@given(st.binary(max_size=200))
def test_any_bytes_give_a_table(text: bytes) -> None:
    table = MountTable(text + b"\n1 0 8:1 / / rw - ext4 /dev/sda1 rw")
    assert table.of(b"/x") is not None
