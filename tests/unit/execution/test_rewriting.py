# SPDX-License-Identifier: Apache-2.0
"""Rewriting in place: without room, without the root cgroup or without a whole copy every file stays the very one."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from tests.unit.execution.machine import build, seen, step, workshop

from zombiescope.execution.surprise import SurpriseError
from zombiescope.host import rewriting
from zombiescope.remedies import plan
from zombiescope.remedies.plan import NamedFile, Undo

REWRITE = step(1, plan.RewriteFiles((NamedFile(b"/dev/shm/5", None), NamedFile(b"/dev/shm/6", None))), Undo.EXACT)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return build(tmp_path / "root")


def inodes(root: Path) -> dict[str, int]:
    return {path.name: path.stat().st_ino for path in (root / "dev/shm").iterdir()}


def test_a_full_file_system_keeps_its_files(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, executor = workshop(root, tmp_path / "state")
    before = inodes(root)
    monkeypatch.setattr(os, "fstatvfs", lambda _: SimpleNamespace(f_blocks=9, f_bavail=0, f_frsize=4096))
    note = executor.run(seen(root, REWRITE)).note
    assert note == "2 of 2 left alone: 2 without room for a copy on its file system"
    assert inodes(root) == before


def test_a_copy_that_cannot_be_whole_stops_the_step(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    _, executor = workshop(root, tmp_path / "state")
    before = inodes(root)
    monkeypatch.setattr(rewriting, "copy_whole", full)
    with pytest.raises(SurpriseError, match="no space left on device; they stay as they are"):
        executor.run(seen(root, REWRITE))
    assert inodes(root) == before


def test_without_the_root_cgroup_nothing_is_copied(root: Path, tmp_path: Path) -> None:
    (root / "sys/fs/cgroup/cgroup.procs").unlink()
    _, executor = workshop(root, tmp_path / "state")
    before = inodes(root)
    assert executor.run(seen(root, REWRITE)).note.startswith("nothing was rewritten: the copies cannot be charged")
    assert inodes(root) == before


def test_another_file_under_the_name_is_traded_back(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, name_copy = root / "dev/shm/5", rewriting.name_copy

    def swapped(new: int, place: int, number: int) -> None:
        name_copy(new, place, number)
        if number == 0:
            (root / "fresh").write_text("fresh")
            os.rename(root / "fresh", file)

    _, executor = workshop(root, tmp_path / "state")
    monkeypatch.setattr(rewriting, "name_copy", swapped)
    assert executor.run(seen(root, REWRITE)).note == "1 of 2 left alone: 1 gone or another of the same name"
    assert file.read_text() == "fresh"
    assert (root / "dev/shm/6").read_text() == "in memory 6"
    assert sorted(inodes(root)) == ["5", "6"]
