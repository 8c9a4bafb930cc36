# SPDX-License-Identifier: Apache-2.0
"""Where the lab may put files, told from mount tables; and folders that are not ours."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zombiescope.errors import ActionFailedError
from zombiescope.lab import places

TABLE = """\
22 1 254:1 / / rw,relatime - ext4 /dev/vda rw
25 22 0:23 / /dev rw - devtmpfs devtmpfs rw
26 25 0:24 / /dev/shm rw - tmpfs tmpfs rw
27 26 0:25 / /dev/shm rw - ext4 /dev/vdb rw
28 22 0:26 / /run rw - tmpfs tmpfs rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/var/lib/x", "ext4"), ("/dev/null", "devtmpfs"), ("/run/zombiescope/lab", "tmpfs"), ("/running", "ext4")],
)
def test_longest_mount_point_decides(path: str, kind: str) -> None:
    assert places.filesystem_of(path, TABLE) == kind


def test_a_later_mount_covers_an_earlier_one() -> None:
    assert places.filesystem_of("/dev/shm/zombiescope-lab", TABLE) == "ext4"


def test_garbage_lines_are_passed_over() -> None:
    assert places.filesystem_of("/run/x", "\n - \nnonsense\n" + TABLE) == "tmpfs"


def test_a_link_in_our_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "ours").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ActionFailedError, match="it is not a folder"):
        places.make_private(str(tmp_path / "ours"))


def test_a_folder_others_may_write_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "ours"
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(ActionFailedError, match="others may write to it"):
        places.make_private(str(folder))


def test_our_own_folder_is_used_again(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "ours"
    places.make_private(str(folder))
    places.make_private(str(folder))
    assert folder.stat().st_mode & 0o777 == 0o700


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


def test_a_root_that_others_take_away_meanwhile_is_made_again(tmp_path: Path) -> None:
    """A run that ends removes its empty root between any two steps of one that begins."""
    root = tmp_path / "root"
    seen: list[int] = []

    def make(top: int) -> None:
        seen.append(top)
        if len(seen) < 5:
            root.rmdir()
        os.mkdir("run", dir_fd=top)

    places._make_in(str(root), make)
    assert len(seen) == 5
    assert (root / "run").is_dir()
