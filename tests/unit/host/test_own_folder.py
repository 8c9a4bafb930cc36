# SPDX-License-Identifier: Apache-2.0
"""Which folders are taken, and that a stranger on the way is seen."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zombiescope.host.own_folder import open_own_folder


def opens(path: Path) -> str:
    """Where it leads, or the word of the refusal."""
    try:
        folder = open_own_folder(os.fsencode(path))
    except OSError as error:
        return error.strerror or ""
    try:
        return os.readlink(f"/proc/self/fd/{folder}")
    finally:
        os.close(folder)


def test_own_folders_and_own_links_are_followed(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "link").symlink_to("a")
    (tmp_path / "whole").symlink_to(tmp_path / "a")
    assert opens(tmp_path / "link/b") == opens(tmp_path / "whole/../a/./b") == str((tmp_path / "a/b").resolve())


def test_a_folder_that_others_may_write_to_is_refused_unless_it_is_sticky(tmp_path: Path) -> None:
    (tmp_path / "open/inner").mkdir(parents=True)
    (tmp_path / "open").chmod(0o777)
    assert opens(tmp_path / "open/inner").startswith("others may write to a folder on the way")
    (tmp_path / "open").chmod(0o1777)
    assert opens(tmp_path / "open/inner") == str((tmp_path / "open/inner").resolve())


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_what_a_stranger_owns_is_refused(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    os.chown(tmp_path / "theirs", 12_345, 12_345)
    (tmp_path / "mine").mkdir()
    (tmp_path / "link").symlink_to("mine")
    os.lchown(tmp_path / "link", 12_345, 12_345)
    assert opens(tmp_path / "theirs").startswith("user 12345 owns")
    assert opens(tmp_path / "link").startswith("user 12345 owns")
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
