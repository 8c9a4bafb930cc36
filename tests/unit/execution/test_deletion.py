# SPDX-License-Identifier: Apache-2.0
"""A copy is whole or there is none; a file in use stays; one that is another goes back to where it was."""

from __future__ import annotations

import errno
import os
import subprocess
import time
from pathlib import Path
from unittest.mock import patch

import pytest
from tests.unit.execution.machine import build, seen, step, workshop

from zombiescope.execution.journal import Journal
from zombiescope.execution.surprise import SurpriseError
from zombiescope.facts.zombies import HeldBy
from zombiescope.host import removal
from zombiescope.host.files import InUse
from zombiescope.remedies import plan
from zombiescope.remedies.plan import NamedFile, Undo

DELETE = step(1, plan.DeleteFiles((NamedFile(b"/dev/shm/5", None), NamedFile(b"/dev/shm/6", None))), Undo.NONE)


def test_a_copy_written_in_parts_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, whole = Journal(str(tmp_path / "one"), lambda: 1.0), os.write
    monkeypatch.setattr(os, "write", lambda handle, data: whole(handle, data[:1000]))
    content = os.urandom(60_000)
    assert Path(journal.keep("x", content)).read_bytes() == content


def test_a_copy_that_cannot_be_whole_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal, whole = Journal(str(tmp_path / "one"), lambda: 1.0), os.write

    def full(handle: int, data: bytes) -> int:
        if len(data) < 60_000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return whole(handle, data[:32_768])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left"):
        journal.keep("x", bytes(60_000))
    assert list((tmp_path / "one/kept").iterdir()) == []


def test_without_a_copy_the_file_stays_and_the_step_stops(tmp_path: Path) -> None:
    root = build(tmp_path / "root")
    hands, executor = workshop(root, tmp_path / "state")
    full = patch.object(hands.journal, "keep", side_effect=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    with full, pytest.raises(SurpriseError, match="cannot keep a copy of /dev/shm/5: no space left"):
        executor.run(seen(root, DELETE))
    assert sorted(path.name for path in (root / "dev/shm").iterdir()) == ["5", "6"]


def test_an_open_file_stays(tmp_path: Path) -> None:
    root = build(tmp_path / "root")
    _, executor = workshop(root, tmp_path / "state")
    with open(root / "dev/shm/5", "rb"):
        note = executor.run(seen(root, DELETE)).note
    assert note.startswith("1 of 2 left alone: 1 in use")
    assert [path.name for path in (root / "dev/shm").iterdir()] == ["5"]


@pytest.mark.parametrize(("unread", "left"), [(0, ["5"]), (1, ["5", "6"])])
def test_without_leases_an_unread_process_may_have_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unread: int, left: list[str]
) -> None:
    root = build(tmp_path / "root")
    monkeypatch.setattr(removal, "_lease", lambda *_: False)
    first = (root / "dev/shm/5").stat()
    key = (f"{os.major(first.st_dev)}:{os.minor(first.st_dev)}", first.st_ino)
    monkeypatch.setattr(
        "zombiescope.execution.grip.files_in_use", lambda _: InUse({key: HeldBy(7, b"program")}, unread)
    )
    _, executor = workshop(root, tmp_path / "state")
    assert "in use by pid 7 (program)" in executor.run(seen(root, DELETE)).note
    assert sorted(path.name for path in (root / "dev/shm").iterdir()) == left


def test_one_that_took_the_name_at_the_last_moment_goes_back(tmp_path: Path) -> None:
    root = build(tmp_path / "root")
    shm = root / "dev/shm"

    def fault(point: str) -> None:
        if point == "before:set_aside" and not (shm / "old").exists():
            (shm / "5").rename(shm / "old")
            (shm / "5").write_text("fresh")

    _, executor = workshop(root, tmp_path / "state", fault)
    assert "1 of 2 left alone" in executor.run(seen(root, DELETE)).note
    assert {path.name: path.read_text() for path in shm.iterdir()} == {"5": "fresh", "old": "in memory 5"}


def test_one_that_somebody_waits_to_open_once_it_was_set_aside_goes_back(tmp_path: Path) -> None:
    root = build(tmp_path / "root")
    shm = root / "dev/shm"
    waiting: list[subprocess.Popen[bytes]] = []

    def fault(point: str) -> None:
        if point == "before:delete" and not waiting:
            (aside,) = shm.glob(".zombiescope-*/0")
            waiting.append(subprocess.Popen(["cat", str(aside)], stdout=subprocess.PIPE))
            _until_waited_for(aside.stat().st_ino)

    _, executor = workshop(root, tmp_path / "state", fault)
    assert "1 of 2 left alone: 1 in use" in executor.run(seen(root, DELETE)).note
    assert [path.name for path in shm.iterdir()] == ["5"]
    assert waiting[0].communicate(timeout=60)[0] == b"in memory 5"


def _until_waited_for(inode: int) -> None:
    """The kernel says of a lease that somebody waits for it."""
    end = time.monotonic() + 40
    while not any("BREAKING" in line and f":{inode} " in line for line in Path("/proc/locks").read_text().splitlines()):
        assert time.monotonic() < end
        time.sleep(0.01)
