# SPDX-License-Identifier: Apache-2.0
"""A file is there whole, or what was there before; nothing is written through a link, and nothing is left beside."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from zombiescope.host.whole_file import write_whole, write_whole_in


def test_it_is_its_owners_and_replaces_a_link_as_a_name(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "file").symlink_to("precious")
    write_whole(str(tmp_path / "file"), [b"one", b"two"])
    assert (tmp_path / "file").read_bytes() == b"onetwo"
    assert (tmp_path / "file").lstat().st_mode & 0o7777 == 0o600
    assert (tmp_path / "precious").read_text() == "precious"


def test_a_name_that_is_taken_stays(tmp_path: Path) -> None:
    (tmp_path / "file").symlink_to("nowhere")
    with pytest.raises(FileExistsError):
        write_whole(bytes(tmp_path / "file"), [b"new"], replace=False)
    write_whole(bytes(tmp_path / "other"), [b"new"], replace=False)
    assert sorted(os.listdir(tmp_path)) == ["file", "other"]
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("end", [OSError, KeyboardInterrupt])
def test_whatever_ends_it_leaves_the_old_file_alone(tmp_path: Path, end: type[BaseException]) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise end

    (tmp_path / "file").write_text("old")
    with pytest.raises(end):
        write_whole(str(tmp_path / "file"), pieces())
    assert os.listdir(tmp_path) == ["file"]
    assert (tmp_path / "file").read_text() == "old"


def test_others_may_read_it_whatever_the_umask(tmp_path: Path) -> None:
    folder, before = os.open(tmp_path, os.O_PATH), os.umask(0o077)
    try:
        write_whole_in(folder, "file", [b"x"], mode=0o644, sync=False)
    finally:
        os.umask(before)
        os.close(folder)
    assert (tmp_path / "file").stat().st_mode & 0o7777 == 0o644
