# SPDX-License-Identifier: Apache-2.0
"""The text file is replaced whole, through nobody's link, and says why it could not be."""

from __future__ import annotations

import os
from pathlib import Path

from zombiescope.agent.textfile import write_textfile


def test_it_is_replaced_whole_and_readable(tmp_path: Path) -> None:
    path, old = tmp_path / "out.prom", os.umask(0o077)
    try:
        assert write_textfile(str(path), b"one\n") is None
        assert write_textfile(str(path), b"two\n") is None
    finally:
        os.umask(old)
    assert path.read_bytes() == b"two\n"
    assert path.stat().st_mode & 0o777 == 0o644
    assert os.listdir(tmp_path) == ["out.prom"]


def test_a_link_in_its_place_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").write_text("precious")
    (tmp_path / "out.prom").symlink_to("precious")
    assert write_textfile(str(tmp_path / "out.prom"), b"one\n") is None
    assert (tmp_path / "precious").read_text() == "precious"
    assert not (tmp_path / "out.prom").is_symlink()


def test_why_not_is_said_and_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    assert write_textfile(str(tmp_path / "a"), b"x") == "is a directory"
    assert write_textfile(str(tmp_path / "none/out.prom"), b"x") == "no such file or directory"
    (tmp_path / "a").chmod(0o777)
    why = write_textfile(str(tmp_path / "a/out.prom"), b"x")
    assert why
    assert why.startswith("others may write to ")
    assert os.listdir(tmp_path / "a") == []
    assert os.listdir(tmp_path) == ["a"]
