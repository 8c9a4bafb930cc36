# SPDX-License-Identifier: Apache-2.0
"""A folder for what is remembered: ours, and nobody else's to write in."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from zombiescope.host.own_folder import ensure_folder


def test_it_is_made_with_what_lies_above(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        ensure_folder(bytes(tmp_path / "lib/zombiescope"))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "lib/zombiescope").stat().st_mode) == 0o750
    ensure_folder(bytes(tmp_path / "lib/zombiescope"))


def test_a_link_of_our_own_leads_to_it(tmp_path: Path) -> None:
    """As systemd lays it for a service with a user of its own."""
    (tmp_path / "private").mkdir()
    (tmp_path / "state").symlink_to("private")
    ensure_folder(bytes(tmp_path / "state"))
    assert (tmp_path / "state").is_symlink()
    assert list((tmp_path / "private").iterdir()) == []


@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_a_shared_one_is_refused(tmp_path: Path, mode: int) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared").chmod(mode)
    with pytest.raises(PermissionError, match="others may write"):
        ensure_folder(bytes(tmp_path / "shared"))


def test_below_a_file_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r".") as refused:
        ensure_folder(bytes(tmp_path / "file/state"))
    assert isinstance(refused.value, NotADirectoryError)
