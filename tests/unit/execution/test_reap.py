# SPDX-License-Identifier: Apache-2.0
"""Only the file that was seen is dropped, and only while it is the dead ones'."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from zombiescope.errors import ActionFailedError, UsageError
from zombiescope.execution.reap import FOREIGN_PAGES, MOST_BYTES, NAME, ReapLog, evict, resident_count
from zombiescope.facts.reaping import EvictionOrder
from zombiescope.facts.remedies import Remedy

PAGE = 4096


def order(path: Path, pages: int, inode: int | None = None) -> EvictionOrder:
    number = path.lstat().st_ino if inode is None else inode
    return EvictionOrder(Remedy.DROP_FILE, os.fsencode(path), b"/a", pages, frozenset({1}), "8:1", number)


@pytest.fixture
def cached(tmp_path: Path) -> Path:
    """A clean file whose pages are cached. On a file system that keeps none (tmpfs has no other place) there is no test."""
    path = tmp_path / "a\nfile"
    path.write_bytes(b"x" * 8 * PAGE)
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        if resident_count(file.fileno(), 8 * PAGE):
            pytest.skip("this file system does not let its pages go")
        file.read()
    return path


def resident(path: Path) -> int:
    with path.open("rb") as file:
        return resident_count(file.fileno(), path.stat().st_size)


def test_the_cache_of_the_file_goes_and_its_content_stays(cached: Path) -> None:
    assert resident(cached) == 8
    done = evict(order(cached, 8), b"/sys/fs/cgroup")
    assert (done.pages, done.refused) == (8, None)
    assert resident(cached) == 0
    assert cached.read_bytes() == b"x" * 8 * PAGE


def test_another_file_by_that_name_is_left(cached: Path) -> None:
    assert "another file" in (evict(order(cached, 8, inode=1), b"/").refused or "")
    assert resident(cached) == 8


def test_a_link_is_not_followed(cached: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(cached)
    assert "it is a link" in (evict(order(link, 8), b"/").refused or "")
    assert resident(cached) == 8


def test_what_is_no_file_does_not_hang(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "not a regular file" in (evict(order(pipe, 1), b"/").refused or "")


def test_a_file_that_is_gone_is_a_reason(tmp_path: Path) -> None:
    assert "no such file" in (evict(order(tmp_path / "gone", 1, inode=5), b"/").refused or "")


def test_a_file_that_somebody_alive_uses_is_left(tmp_path: Path, cached: Path) -> None:
    path = tmp_path / "shared"
    path.write_bytes(b"x" * (FOREIGN_PAGES + 5) * PAGE)
    assert "somebody alive" in (evict(order(path, 1), b"/").refused or "")
    assert resident(path) == FOREIGN_PAGES + 5


def test_reclaim_asks_without_swap_first_and_takes_what_the_kernel_takes(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "memory.reclaim").write_text("")
    asked = EvictionOrder(Remedy.RECLAIM_PARENT, b"/a", b"/a", 3, frozenset({1}))
    assert evict(asked, os.fsencode(tmp_path)).pages == 3
    assert (tmp_path / "a" / "memory.reclaim").read_text() == f"{3 * PAGE} swappiness=0"
    assert evict(asked._replace(target=b"/none"), os.fsencode(tmp_path)).refused


def test_the_log_is_one_line_a_pass_and_bounded(tmp_path: Path) -> None:
    log = ReapLog(os.fsencode(tmp_path / "state"))
    log.write({"at": 1.0, "orders": ["x" * MOST_BYTES]})
    log.write({"at": 2.0, "orders": []})
    log.close()
    kept = tmp_path / "state" / os.fsdecode(NAME)
    assert kept.read_text() == '{"at": 2.0, "orders": []}\n'
    assert kept.with_name(kept.name + ".1").stat().st_size > MOST_BYTES


def test_one_reaper_a_folder(tmp_path: Path) -> None:
    first = ReapLog(os.fsencode(tmp_path))
    with pytest.raises(UsageError, match="another reaper"):
        ReapLog(os.fsencode(tmp_path))
    first.close()
    ReapLog(os.fsencode(tmp_path)).close()


def test_without_a_log_nothing_is_done(tmp_path: Path) -> None:
    log = ReapLog(os.fsencode(tmp_path))
    (tmp_path / os.fsdecode(NAME)).mkdir()
    with pytest.raises(ActionFailedError, match="reaper's log"):
        log.write({"at": 1.0})
