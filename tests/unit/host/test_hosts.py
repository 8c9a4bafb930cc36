# SPDX-License-Identifier: Apache-2.0
"""One suite over every host: what a reader may rely on, whichever machine it is given."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.build import ScriptedHost, write_machine

from zombiescope.host.access import READ_LIMIT_BYTES, Host
from zombiescope.host.live import LiveHost, TreeHost

FILES = {
    b"/proc/short": b"one\n",
    b"/proc/empty": b"",
    b"/proc/long": b"0123456789abcdef" * 20_000,
    b"/top/plain": b"",
    b"/top/b/inner/leaf/plain": b"",
    b"/top/a/plain": b"",
    b"/top/b/\xff\n[bold]/plain": b"",
}
Open = Callable[[Path], Host]


def open_live(folder: Path) -> Host:
    return LiveHost(write_machine(folder, FILES))


def open_tree(folder: Path) -> Host:
    return TreeHost(write_machine(folder, FILES))


def open_scripted(folder: Path) -> Host:
    return ScriptedHost(FILES)


every_host = pytest.mark.parametrize("open_host", [open_live, open_tree, open_scripted])
folder_hosts = pytest.mark.parametrize("open_host", [open_live, open_tree])


@every_host
def test_a_file_is_read_whole(open_host: Open, tmp_path: Path) -> None:
    host = open_host(tmp_path)
    assert [host.read(path) for path in FILES] == list(FILES.values())


@every_host
@pytest.mark.parametrize("path", [b"/proc/none", b"/nowhere/at/all"])
def test_what_is_not_there_is_enoent(open_host: Open, tmp_path: Path, path: bytes) -> None:
    with pytest.raises(OSError) as caught:
        open_host(tmp_path).read(path)
    assert caught.value.errno == errno.ENOENT


@every_host
@pytest.mark.parametrize(("path", "limit"), [(b"/proc/short", 3), (b"/proc/long", 100), (b"/proc/long", 70_000)])
def test_more_than_the_limit_is_efbig(open_host: Open, tmp_path: Path, path: bytes, limit: int) -> None:
    host = open_host(tmp_path)
    with pytest.raises(OSError) as caught:
        host.read(path, limit)
    assert caught.value.errno == errno.EFBIG
    assert host.read(path, len(FILES[path])) == FILES[path]


@folder_hosts
def test_a_folder_is_not_a_file_and_a_file_is_no_folder(open_host: Open, tmp_path: Path) -> None:
    host = open_host(tmp_path)
    with pytest.raises(IsADirectoryError):
        host.read(b"/top")
    with pytest.raises(NotADirectoryError):
        host.subdirectories(b"/proc/short")
    with pytest.raises(OSError):
        host.directories(b"/proc/short")


@every_host
def test_directories_are_named_parents_first_and_leaves_are_those_with_none_inside(
    open_host: Open, tmp_path: Path
) -> None:
    walk = open_host(tmp_path).directories(b"/top")
    leaves = {b"/a", b"/b/\xff\n[bold]", b"/b/inner/leaf"}
    assert set(walk.paths) == leaves | {b"/", b"/b", b"/b/inner"}
    assert len(walk.paths) == len(set(walk.paths))
    assert set(walk.leaves) == leaves
    for path in walk.paths[1:]:
        assert walk.paths.index(path.rpartition(b"/")[0] or b"/") < walk.paths.index(path)
    assert walk.unreadable == ()


@every_host
def test_the_place_itself_is_a_leaf_when_it_is_alone(open_host: Open, tmp_path: Path) -> None:
    walk = open_host(tmp_path).directories(b"/top/a")
    assert (walk.paths, walk.leaves) == ((b"/",), (b"/",))


@every_host
def test_subdirectories_are_names(open_host: Open, tmp_path: Path) -> None:
    host = open_host(tmp_path)
    assert sorted(host.subdirectories(b"/top/b")) == [b"inner", b"\xff\n[bold]"]
    assert host.subdirectories(b"/top/a") == []
    with pytest.raises(FileNotFoundError):
        host.subdirectories(b"/top/none")
    with pytest.raises(FileNotFoundError):
        host.directories(b"/top/none")


@folder_hosts
def test_a_link_is_no_directory(open_host: Open, tmp_path: Path) -> None:
    host = open_host(tmp_path)
    os.symlink("b", tmp_path / "top" / "link")
    assert b"link" not in host.subdirectories(b"/top")
    assert not [path for path in host.directories(b"/top").paths if path.startswith(b"/link")]


@folder_hosts
def test_a_directory_that_cannot_be_listed_is_said(open_host: Open, tmp_path: Path) -> None:
    """A path longer than the kernel takes: it fails for root too."""
    host = open_host(tmp_path)
    deep = os.open(tmp_path / "top", os.O_RDONLY)
    try:
        for _ in range(20):
            os.mkdir("n" * 255, dir_fd=deep)
            deeper = os.open("n" * 255, os.O_RDONLY, dir_fd=deep)
            os.close(deep)
            deep = deeper
        walk = host.directories(b"/top")
    finally:
        os.close(deep)
    assert [code for _, code in walk.unreadable] == [errno.ENAMETOOLONG]
    assert walk.unreadable[0][0] in walk.paths
    assert walk.unreadable[0][0] not in walk.leaves
    assert b"/a" in walk.leaves


@folder_hosts
def test_inode_of_what_is_not_there_is_enoent(open_host: Open, tmp_path: Path) -> None:
    host = open_host(tmp_path)
    with pytest.raises(FileNotFoundError):
        host.inode(b"/none")
    host.inode(b"/top")


@every_host
def test_time_only_goes_forward(open_host: Open, tmp_path: Path) -> None:
    host = open_host(tmp_path)
    before, monotonic = host.wall_clock(), host.monotonic()
    host.wait(0)
    assert host.wall_clock() >= before
    assert host.monotonic() >= monotonic


@every_host
def test_an_experiment_is_done_where_time_passes_and_nowhere_else(open_host: Open, tmp_path: Path) -> None:
    host = open_host(tmp_path)
    assert host.experiment("x", lambda: {"answer": 1}) == ({"answer": 1} if host.is_live else None)


@folder_hosts
def test_its_name_cannot_act_on_a_terminal(open_host: Open, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"\x1b[31m\xff\n")
    folder.mkdir()
    assert open_host(folder).label.endswith(r"\x1b[31m\xff\x0a")


def test_the_limit_is_for_files_of_the_kernel() -> None:
    assert READ_LIMIT_BYTES >= 1 << 20
