# SPDX-License-Identifier: Apache-2.0
"""Which folders are taken, that a stranger on the way is seen, and what is ours alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zombiescope.host.own_folder import OURS, STATE, Whose, guarded_folder, open_own_file, own_folder, own_folder_in
from zombiescope.host.safe_paths import UnsafePathError


def opens(path: Path) -> str:
    """Where it leads, or the word of the refusal."""
    try:
        with guarded_folder(str(path)) as folder:
            return os.readlink(f"/proc/self/fd/{folder}")
    except OSError as error:
        return error.strerror or ""


def test_own_folders_and_own_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "whole").symlink_to(tmp_path / "a")
    assert opens(tmp_path / "link/b") == opens(tmp_path / "whole/../a/./b") == str((tmp_path / "a/b").resolve())


def test_a_folder_that_others_may_write_to_is_refused_unless_it_is_sticky(tmp_path: Path) -> None:
    (tmp_path / "open/inner").mkdir(parents=True)
    (tmp_path / "open").chmod(0o777)
    assert opens(tmp_path / "open/inner") == f"others may write to {tmp_path}/open, on the way to it"
    (tmp_path / "open").chmod(0o1777)
    assert opens(tmp_path / "open/inner") == str((tmp_path / "open/inner").resolve())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_a_stranger_owns_is_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", 12_345, 12_345)
    (tmp_path / "mine").mkdir()
    (tmp_path / "link").symlink_to("mine")
    os.lchown(tmp_path / "link", 12_345, 12_345)
    for name in ("theirs", "link"):
        assert opens(tmp_path / name) == f"{tmp_path}/{name}, on the way to it, belongs to uid 12345"
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(0o775)
    os.chown(tmp_path / "shared", 0, 12_345)
    assert opens(tmp_path / "shared").startswith("others may write")


def test_what_is_not_there_and_a_circle_end(tmp_path: Path) -> None:
    (tmp_path / "round").symlink_to("round")
    (tmp_path / "file").write_text("")
    before = len(os.listdir("/proc/self/fd"))
    assert opens(tmp_path / "round") == "Too many levels of symbolic links"
    assert opens(tmp_path / "nothing") == "No such file or directory"
    assert opens(tmp_path / "file") == "Not a directory"
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_state_folder_is_made_and_is_nobody_elses(tmp_path: Path) -> None:
    with own_folder(str(tmp_path / "a/b"), STATE, make=True) as folder:
        assert os.fstat(folder).st_mode & 0o777 == 0o700
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    for name, why in (("open", "others may write"), ("open/below", "others may write"), ("link", "is not a folder")):
        with pytest.raises(UnsafePathError, match=why), own_folder(str(tmp_path / name), STATE, make=True):
            pass


def test_parents_are_made_for_us_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with own_folder(str(tmp_path / "deep" / "ours"), make=True):
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "deep").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "deep/ours").stat().st_mode & 0o777 == 0o700


def test_a_parent_that_others_may_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(PermissionError, match="on the way to it"), own_folder(f"{tmp_path}/open/ours", make=True):
        pass
    (tmp_path / "open").chmod(0o1777)
    with own_folder(str(tmp_path / "open/ours"), make=True):
        pass


def test_a_folder_on_the_way_may_have_the_same_name(tmp_path: Path) -> None:
    with own_folder(str(tmp_path / "lab/lab"), make=True) as folder:
        assert os.path.samestat(os.fstat(folder), os.stat(tmp_path / "lab/lab"))


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o707])
def test_a_run_folder_is_for_us_alone(tmp_path: Path, mode: int) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(mode)
    with own_folder(str(tmp_path)) as top, pytest.raises(PermissionError), own_folder_in(top, "run"):
        pass


def test_only_a_regular_file_with_one_name_is_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "file").chmod(0o600)
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe", 0o600)
    with own_folder(str(tmp_path)) as folder:
        os.close(open_own_file(folder, "file", os.O_RDWR))
        for name in ("link", "pipe", "missing"):
            with pytest.raises(OSError):
                open_own_file(folder, name)
        os.link(tmp_path / "file", tmp_path / "second")
        with pytest.raises(PermissionError, match="more than one name"):
            open_own_file(folder, "file")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize(
    ("owner", "group", "mode", "taken"),
    [
        (0, 0, 0o755, (OURS, STATE)),
        (0, 0, 0o775, (STATE,)),
        (0, 12_345, 0o775, ()),
        (0, 0, 0o1777, ()),
        (12_345, 0, 0o700, ()),
    ],
)
def test_what_each_rule_takes_at_the_end(
    tmp_path: Path, owner: int, group: int, mode: int, taken: tuple[Whose, ...]
) -> None:
    (tmp_path / "it").mkdir()
    os.chown(tmp_path / "it", owner, group)
    (tmp_path / "it").chmod(mode)
    for whose in (OURS, STATE):
        try:
            with own_folder(str(tmp_path / "it"), whose):
                is_taken = True
        except UnsafePathError:
            is_taken = False
        assert is_taken is (whose in taken)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_strangers_link_on_the_way_leads_nowhere_and_roots_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with own_folder(str(tmp_path / "link/ours"), make=True) as folder:
        assert os.path.samestat(os.fstat(folder), os.stat(tmp_path / "real/ours"))
    os.lchown(tmp_path / "link", 12_345, 12_345)
    for whose in (OURS, STATE):
        with pytest.raises(UnsafePathError, match="belongs to uid 12345"), own_folder(f"{tmp_path}/link/ours", whose):
            pass
