# SPDX-License-Identifier: Apache-2.0
"""Folders and files that are ours alone, and everything that is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zombiescope.lab import owned, places


def test_parents_are_made_for_us_alone_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with owned.own_folder(str(tmp_path / "deep" / "ours"), make=True):
            pass
    finally:
        os.umask(before)
    assert (tmp_path / "deep").stat().st_mode & 0o777 == 0o755
    assert (tmp_path / "deep/ours").stat().st_mode & 0o777 == 0o700


def test_a_parent_that_others_may_write_is_refused(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(PermissionError, match="on the way to it"), owned.own_folder(f"{tmp_path}/open/ours", make=True):
        pass
    (tmp_path / "open").chmod(0o1777)
    with owned.own_folder(str(tmp_path / "open/ours"), make=True):
        pass


def test_a_folder_on_the_way_may_have_the_same_name(tmp_path: Path) -> None:
    with owned.own_folder(str(tmp_path / "lab/lab"), make=True) as folder:
        assert os.path.samestat(os.fstat(folder), os.stat(tmp_path / "lab/lab"))


@pytest.mark.parametrize("mode", [0o755, 0o770, 0o707])
def test_a_run_folder_is_for_us_alone(tmp_path: Path, mode: int) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run").chmod(mode)
    with owned.own_folder(str(tmp_path)) as top, pytest.raises(PermissionError), owned.own_folder_in(top, "run"):
        pass


def test_only_a_regular_file_with_one_name_is_opened(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "file").chmod(0o600)
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe", 0o600)
    with owned.own_folder(str(tmp_path)) as folder:
        os.close(owned.open_own_file(folder, "file", os.O_RDWR))
        for name in ("link", "pipe", "missing"):
            with pytest.raises(OSError):
                owned.open_own_file(folder, name)
        os.link(tmp_path / "file", tmp_path / "second")
        with pytest.raises(PermissionError, match="more than one name"):
            owned.open_own_file(folder, "file")


def test_a_place_that_is_taken_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken, free = tmp_path / "taken", tmp_path / "free"
    taken.mkdir()
    taken.chmod(0o777)
    monkeypatch.setattr(places, "TMPFS_ROOTS", (str(taken), str(free)))
    monkeypatch.setattr(places, "filesystem_of", lambda _: "tmpfs")
    assert places.tmpfs_folder("run") == f"{free}/run/tmpfs"


def test_what_an_earlier_version_left_is_found_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "ROOTS", (str(tmp_path / "former"),))
    places.make_run_folder(str(tmp_path / "former/run/tmpfs"))
    (tmp_path / "former/run/tmpfs/000000").write_text("x")
    (tmp_path / "elsewhere").write_text("x")
    (tmp_path / "former/run/link").symlink_to(tmp_path / "elsewhere")
    assert places.runs_in_folders() == {"run"}
    assert len(list(places.pin_folders("run"))) == 1
    assert places.remove_run_folders("run") == (2, [])
    assert (tmp_path / "elsewhere").exists() and not (tmp_path / "former/run").exists()
