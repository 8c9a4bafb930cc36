# SPDX-License-Identifier: Apache-2.0
"""An answer takes a name; it is never written through one."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from zombiescope.host.own_folder import write_answer


def test_a_new_file_has_the_callers_mode_and_nothing_lies_beside(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        assert write_answer(bytes(tmp_path / "page"), [b"one ", b"two"]) == 7
    finally:
        os.umask(before)
    assert (tmp_path / "page").read_bytes() == b"one two"
    assert stat.S_IMODE((tmp_path / "page").stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["page"]


def test_a_file_that_was_private_stays_private(tmp_path: Path) -> None:
    page = tmp_path / "page"
    page.write_text("a longer one from yesterday")
    page.chmod(0o600)
    write_answer(bytes(page), [b"new"])
    assert page.read_bytes() == b"new"
    assert stat.S_IMODE(page.stat().st_mode) == 0o600


def test_another_name_of_the_file_keeps_what_it_had(tmp_path: Path) -> None:
    (tmp_path / "other").write_text("other")
    os.link(tmp_path / "other", tmp_path / "page")
    write_answer(bytes(tmp_path / "page"), [b"new"])
    assert (tmp_path / "other").read_text() == "other"


def test_a_link_of_our_own_is_followed(tmp_path: Path) -> None:
    (tmp_path / "page").symlink_to(tmp_path / "elsewhere")
    write_answer(bytes(tmp_path / "page"), [b"new"])
    assert (tmp_path / "elsewhere").read_bytes() == b"new"


def test_a_descriptor_can_be_named(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    assert write_answer(b"/dev/fd/%d" % writing, [b"new"]) == 3
    assert os.read(reading, 10) == b"new"
    os.close(reading)
    os.close(writing)


def test_what_fails_half_way_leaves_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "page").write_text("old")

    def pieces() -> object:
        yield b"half"
        raise OSError(28, "no space left on device")

    with pytest.raises(OSError, match="no space"):
        write_answer(bytes(tmp_path / "page"), pieces())  # type: ignore[arg-type]
    assert (tmp_path / "page").read_text() == "old"
    assert os.listdir(tmp_path) == ["page"]


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        write_answer(bytes(tmp_path), [b"new"])
