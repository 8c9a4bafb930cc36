# SPDX-License-Identifier: Apache-2.0
"""The ring of a recorder: its own segments, the newest always, and never what somebody imported."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from tests.profiler.perf_files import TOOLS, small_capture

from zombiescope.cli.main import main
from zombiescope.profiler.files import recorder, store
from zombiescope.profiler.formats.capture_file import encode
from zombiescope.profiler.perf.importing import import_perf

CAPTURE = import_perf(memoryview(bytearray(small_capture().pipe())), TOOLS, "test")


def put(folder: Path, name: str, mark: str, at: int) -> int:
    marked = replace(CAPTURE, about=CAPTURE.about._replace(ring=mark))
    path = store.save(os.fsencode(folder), name.encode(), encode(marked))
    os.utime(path, (at, at))
    return os.path.getsize(path)


def names(folder: Path) -> list[str]:
    return [entry.name for entry in store.entries(os.fsencode(folder))]


def test_the_newest_are_kept(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    mark = recorder.mark_of(folder, "")
    sizes = [put(tmp_path, f"part-{number}", mark, 1000 + number) for number in range(5)]
    assert len(recorder.keep_ring(folder, mark, most_bytes=sum(sizes[-2:]), oldest=0)) == 3
    assert names(tmp_path) == ["part-3", "part-4"]
    recorder.keep_ring(folder, mark, most_bytes=10**9, oldest=1e12)
    assert names(tmp_path) == ["part-4"]


def test_what_is_not_of_the_ring_stays(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path)
    mark, beside = recorder.mark_of(folder, ""), recorder.mark_of(folder, "nic-reset")
    put(tmp_path, "imported", "", 1)
    put(tmp_path, "of-another-recorder", beside, 2)
    put(tmp_path, "copied-from-elsewhere", recorder.mark_of(folder + b"/elsewhere", ""), 3)
    put(tmp_path, "mine", mark, 4)
    put(tmp_path, "my-newest", mark, 5)
    (tmp_path / "damaged.zscap").write_bytes(b"nonsense")
    assert recorder.keep_ring(folder, mark, most_bytes=1, oldest=1e12) == [folder + b"/mine.zscap"]
    assert set(names(tmp_path)) == {
        "imported",
        "of-another-recorder",
        "copied-from-elsewhere",
        "my-newest",
        "damaged",
    }


def test_the_next_recorder_goes_on_with_the_ring(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path / "new")
    assert recorder.mark_of(folder, "a") == recorder.mark_of(folder, "a") != recorder.mark_of(folder, "b")
    (tmp_path / "new/.ring").write_bytes(b"x" * 1000)
    assert len(recorder.mark_of(folder, "")) == 17


def test_a_segment_that_is_imported_is_nobodys(tmp_path: Path) -> None:
    store_folder, elsewhere = tmp_path / "store", tmp_path / "elsewhere"
    mark = recorder.mark_of(os.fsencode(store_folder), "")
    put(elsewhere, "segment", mark, 1)
    words = ["profile", "import", str(elsewhere / "segment.zscap"), "--name", "kept", "--captures", str(store_folder)]
    assert main(words) == 0
    put(store_folder, "mine", mark, 5)
    recorder.keep_ring(os.fsencode(store_folder), mark, most_bytes=1, oldest=1e12)
    assert sorted(names(store_folder)) == ["kept", "mine"]
