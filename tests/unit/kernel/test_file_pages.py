# SPDX-License-Identifier: Apache-2.0
"""On files of our own, which need no privilege: mincore and the page table are asked, only the owners are made up."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.kernel.frames import OneOwner, is_mapped_in

from zombiescope.host.page_size import PAGE_BYTES
from zombiescope.kernel.file_pages import Candidate, Figures, FilePages, measure, pages_of
from zombiescope.kernel.mount_paths import device_of, files_below, link_name, open_files
from zombiescope.kernel.pages import ResidentWindow, open_window

OWNER = 77


@pytest.fixture
def window() -> Iterator[ResidentWindow]:
    with open_window(16) as opened:
        yield opened


def candidate(path: Path) -> Candidate:
    return Candidate(bytes(path), bytes(path), bytes(path), "tmpfs")


def written(path: Path, pages: int) -> Path:
    path.write_bytes(b"z" * PAGE_BYTES * pages)
    return path


def always() -> bool:
    return True


def never() -> bool:
    return False


def test_resident_pages_are_counted_across_windows(tmp_path: Path, window: ResidentWindow) -> None:
    files = [written(tmp_path / f"{pages}", pages) for pages in (1, 40, 3)]
    pages = FilePages(OneOwner(OWNER), window, {OWNER})
    found = list(pages.look(map(candidate, files), never))
    assert [(each.pages[OWNER], each.resident, each.length) for each in found] == [(1, 1, 1), (40, 40, 40), (3, 3, 3)]
    assert [each.path for each in found] == [bytes(path) for path in files]
    assert found[0].inode == files[0].stat().st_ino and not found[0].is_part


def test_a_file_is_looked_at_once_and_strangers_are_left_out(tmp_path: Path, window: ResidentWindow) -> None:
    path = written(tmp_path / "one", 1)
    os.link(path, tmp_path / "two")
    pages = FilePages(OneOwner(OWNER), window, {OWNER})
    assert len(list(pages.look([candidate(path), candidate(tmp_path / "two")], never))) == 1
    assert pages.files_seen == 1
    assert list(FilePages(OneOwner(OWNER), window, {1}).look([candidate(path)], never)) == []


def test_holes_are_neither_touched_nor_filled(tmp_path: Path, window: ResidentWindow) -> None:
    path = tmp_path / "sparse"
    with path.open("wb") as file:
        file.write(b"z" * PAGE_BYTES)
        file.seek(PAGE_BYTES * 100_000)
        file.write(b"z")
        file.truncate(1 << 40)
    before = path.stat()
    (found,) = FilePages(OneOwner(OWNER), window, {OWNER}).look([candidate(path)], never)
    assert found.pages[OWNER] >= 2
    after = path.stat()
    assert (after.st_blocks, after.st_atime_ns) == (before.st_blocks, before.st_atime_ns)


def test_time_used_up_ends_the_look(tmp_path: Path, window: ResidentWindow) -> None:
    path = written(tmp_path / "file", 1)
    assert list(FilePages(OneOwner(OWNER), window, {OWNER}).look([candidate(path)], always)) == []
    asked = iter([False, False, True])
    large = written(tmp_path / "large", 40)
    (found,) = FilePages(OneOwner(OWNER), window, {OWNER}).look([candidate(large)], lambda: next(asked, True))
    assert found.is_part and 0 < found.pages[OWNER] < 40


def test_what_is_no_file_is_passed_over(tmp_path: Path, window: ResidentWindow) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "link").symlink_to(written(tmp_path / "file", 1))
    (tmp_path / "empty").touch()
    names = ("fifo", "link", "gone", "empty", "")
    pages = FilePages(OneOwner(OWNER), window, {OWNER})
    assert list(pages.look([candidate(tmp_path / name) for name in names], never)) == []


def test_a_file_renamed_meanwhile_has_no_path(tmp_path: Path, window: ResidentWindow) -> None:
    path = written(tmp_path / "file", 1)
    with path.open("rb") as file:
        link = b"/proc/self/fd/%d" % file.fileno()
        path.unlink()
        held = Candidate(link, bytes(path), b"/file (deleted)", "tmpfs", os.getpid(), is_link=True)
        (found,) = FilePages(OneOwner(OWNER), window, {OWNER}).look([held], never)
    assert found.path is None


def test_a_shrunk_file_is_no_bus_error(tmp_path: Path, window: ResidentWindow) -> None:
    path = written(tmp_path / "file", 4)
    with path.open("rb") as file:
        window.lay(file.fileno(), 0, 4)
        os.truncate(path, PAGE_BYTES)
        window.touch([0, 1, 2, 3])
        first = window.address // PAGE_BYTES
        assert [is_mapped_in(first + page) for page in range(4)] == [True, False, False, False]
        window.let_go()
        assert not is_mapped_in(first)
        window.clear()
        assert window.used == 0 and window.room == 16


def test_a_mapping_of_somebody_elses_making(tmp_path: Path, window: ResidentWindow) -> None:
    with written(tmp_path / "file", 3).open("rb") as file, open_window(4) as theirs:
        theirs.lay(file.fileno(), 0, 3)
        assert FilePages(OneOwner(OWNER), window, {OWNER}).look_at(theirs.address, 3) == {OWNER: 3}


def figures(*steps: tuple[int, int]) -> Iterator[Figures]:
    for step in steps:
        yield Figures(*step)


def test_figures_that_go_up_and_down_alike_decide(tmp_path: Path, window: ResidentWindow) -> None:
    files = [(candidate(written(tmp_path / "file", 3)), 3)]
    script = figures((10, 5), (10, 8), (10, 5))
    assert measure(window, files, lambda: next(script), cpus=1) == Figures(0, 3)
    assert window.used == 0


def test_figures_that_others_disturb_are_asked_again_and_then_given_up(tmp_path: Path, window: ResidentWindow) -> None:
    files = [(candidate(written(tmp_path / "file", 3)), 3)]
    script = figures((10, 5), (10, 8), (10, 6), (0, 0), (1, 2), (0, 0))
    assert measure(window, files, lambda: next(script), cpus=1) == Figures(1, 2)
    noise = figures(*[(0, 0), (0, 9), (0, 0)] * 3)
    assert measure(window, files, lambda: next(noise), cpus=1) is None
    assert measure(window, [(candidate(tmp_path / "gone"), 1)], lambda: Figures(0, 0), cpus=1) is None


def test_files_of_one_file_system_below_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    strange = os.fsencode(tmp_path) + b"/a/b/new\nline\xff"
    with open(strange, "wb"):
        pass
    (tmp_path / "loop").symlink_to(tmp_path)
    device = device_of(bytes(tmp_path))
    assert list(files_below(bytes(tmp_path), device)) == [strange]
    assert list(files_below(bytes(tmp_path), "0:0")) == []
    with pytest.raises(FileNotFoundError):
        list(files_below(bytes(tmp_path / "gone"), device))


def test_open_files_by_the_names_the_kernel_gives() -> None:
    descriptor = os.memfd_create("seen")
    try:
        assert (b"/proc/self/fd/%d" % descriptor, b"/memfd:seen (deleted)") in list(open_files(b"/proc/self"))
    finally:
        os.close(descriptor)
    assert link_name(b"/proc/self/fd/999999") == b""


@pytest.mark.parametrize(("length", "pages"), [(0, 0), (1, 1), (4096, 1), (4097, 2)])
def test_a_page_begun_is_a_page(length: int, pages: int) -> None:
    assert pages_of(length) == pages or PAGE_BYTES != 4096
