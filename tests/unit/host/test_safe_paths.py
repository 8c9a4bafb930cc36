# SPDX-License-Identifier: Apache-2.0
"""A walk goes where it was told, and nowhere a stranger leads it. Owners are stood in for: only root can make others."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from zombiescope.host import safe_paths
from zombiescope.host.safe_paths import CAREFUL, STRICT, UnsafePathError, folder_at, is_unsafe


@pytest.mark.parametrize(
    ("above", "below", "unsafe"),
    [(0, 0, False), (0, 1000, False), (1000, 1000, False), (1000, 0, True), (1000, 1001, True)],
)
def test_the_rule_of_systemd_tmpfiles(monkeypatch: pytest.MonkeyPatch, above: int, below: int, unsafe: bool) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert is_unsafe(above, below) is unsafe


def inode_at(root: Path, path: bytes, rules: safe_paths.Rules = CAREFUL) -> int:
    with folder_at(os.fsencode(root), path, rules) as folder:
        return os.fstat(folder).st_ino


def test_links_lead_nowhere_outside_the_root(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "etc/deep").mkdir(parents=True)
    (tmp_path / "secret").mkdir()
    (root / "up").symlink_to("../../../../etc")
    (root / "absolute").symlink_to("/etc/deep/..")
    (root / "out").symlink_to(tmp_path / "secret")
    assert inode_at(root, b"/up") == inode_at(root, b"absolute") == (root / "etc").stat().st_ino
    with pytest.raises(FileNotFoundError):
        inode_at(root, b"/out")
    with pytest.raises(UnsafePathError, match="is a link by now"):
        inode_at(root, b"/up/deep", STRICT)


def test_links_in_a_ring_and_paths_without_end(tmp_path: Path) -> None:
    (tmp_path / "ring").symlink_to("ring")
    for path, code in ((b"/ring", errno.ELOOP), (b"/x" * 4096, errno.ENAMETOOLONG)):
        with pytest.raises(OSError) as caught:
            inode_at(tmp_path, path)
        assert caught.value.errno == code
