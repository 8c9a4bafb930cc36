# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.kernel.mount_paths import Mount, MountPaths, MountTable, parse_mounts, path_in

_TABLE = b"""\
20 1 254:0 / / rw - ext4 /dev/vda rw
21 20 0:30 / /dev/shm rw - tmpfs tmpfs rw
22 20 254:1 /data/sub /srv/a\\040b rw - ext4 /dev/vdb rw
23 20 0:40 / /home rw - tmpfs tmpfs rw
24 20 0:41 / /home/file rw - tmpfs tmpfs rw
garbage
"""


def found(device: str, path: bytes) -> bytes | None:
    mounts = MountPaths(parse_mounts(_TABLE))
    folder, _, name = path.rpartition(b"/")
    opened = mounts.folder(device, folder or b"/")
    return None if opened is None else mounts.visible(opened + b"/" + name)


def test_octal_escapes_are_read_and_garbage_is_left_out() -> None:
    mounts = parse_mounts(_TABLE)
    assert mounts[2] == Mount("254:1", b"/data/sub", b"/srv/a b", "ext4")
    assert len(mounts) == 5


def test_a_path_is_found_where_its_file_system_is_mounted() -> None:
    assert found("254:0", b"/usr/bin/bash") == b"/usr/bin/bash"
    assert found("254:0", b"/vmlinuz") == b"/vmlinuz"
    assert found("0:30", b"/new\nline") == b"/dev/shm/new\nline"


def test_a_bind_mount_shows_only_what_lies_below_its_root() -> None:
    assert found("254:1", b"/data/sub/x") == b"/srv/a b/x"
    assert found("254:1", b"/data/subtle/x") is None
    assert found("254:1", b"/other") is None


def test_what_another_mount_hides_cannot_be_opened() -> None:
    assert found("254:0", b"/home/somebody/file") is None
    assert found("0:40", b"/file") is None


def test_a_directory_knows_whether_something_is_mounted_on_its_entries() -> None:
    mounts = MountPaths(parse_mounts(_TABLE))
    assert mounts.hides_in(b"/home") and mounts.hides_in(b"/dev") and not mounts.hides_in(b"/usr")


def test_a_file_system_that_is_not_mounted_here_has_no_path() -> None:
    assert found("8:1", b"/x") is None


@given(st.binary(max_size=300))
def test_any_bytes_are_a_table(table: bytes) -> None:
    MountPaths(parse_mounts(table)).folder("254:0", b"/x")


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
