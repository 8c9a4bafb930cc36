# SPDX-License-Identifier: Apache-2.0
"""A ring stays within its bounds at every moment, whatever comes at once, whatever a kill left; where it cannot, it says so."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import cast

import pytest
from tests.profiler.perf_files import record, small_capture

from zombiescope.errors import ObservationError
from zombiescope.kernel.perf_events import Sampler
from zombiescope.profiler.files import recorder, ring, rolling, sources, store
from zombiescope.profiler.files.beside import SUMMARY, add_reasons, read_notes
from zombiescope.profiler.files.recorder import Recording
from zombiescope.profiler.files.ring import held, look_at
from zombiescope.profiler.files.rolling import Order
from zombiescope.profiler.files.sources import IsOver, PerfSource
from zombiescope.profiler.files.stream_head import head
from zombiescope.profiler.formats.capture_file import encode
from zombiescope.profiler.stacks.about import Reason

PADDING = record(82, 0, bytes(60_000))
"""Nobody looks into it."""


def raw(size: int) -> bytes:
    return small_capture().pipe() + PADDING * (size // len(PADDING))


def bytes_in(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.iterdir())


class Bursts:
    """Segments of these sizes, each written at once: nobody can end one before."""

    name, why = "own", "a test"
    made = 0
    """Bytes that each capture has beyond its own: nobody reads what stands behind."""

    def __init__(self, folder: Path, sizes: list[int]) -> None:
        self.folder, self.sizes, self.most, self.grown = folder, sizes, 0, 0

    def look(self, more: int = 0) -> None:
        self.most = max(self.most, bytes_in(self.folder) + more)

    def begin(self, folder: bytes) -> None: ...

    def segment(self, folder: bytes, is_over: IsOver, has_next: Callable[[], bool]) -> bytes:
        path = os.path.join(folder, b"20260101T%06dZ.recording" % self.grown)
        self.grown += 1
        Path(os.fsdecode(path)).write_bytes(raw(self.sizes[self.grown - 1]))
        self.look()
        return path

    def close(self) -> None: ...

    def is_over(self) -> bool:
        return self.grown == len(self.sizes)


def run(source: Bursts, patch: pytest.MonkeyPatch, most_bytes: int) -> Recording:
    save = store.save

    def watched(folder: bytes, name: bytes, pieces: Iterable[bytes]) -> bytes:
        whole = list(pieces)
        source.look(sum(map(len, whole)))
        path = save(folder, name, whole)
        source.look()
        return path

    with patch.context() as patched:
        patched.setattr(store, "save", watched)
        patched.setattr(recorder, "open_source", lambda wanted, rate: source)
        patched.setattr(recorder, "encode", lambda capture: [*encode(capture), bytes(source.made)])
        recording = Recording(Order(bytes(source.folder), most_bytes=most_bytes), source.is_over)
        for _ in recording.segments(None):
            source.look()
    return recording


def notes(folder: Path) -> list[str]:
    return [note.what for note in read_notes(bytes(folder))]


@pytest.mark.parametrize(
    "sizes",
    [
        [600_000] * 25,
        [100_000, 1_400_000] * 12,
        [60_000] * 20 + [1_200_000] + [60_000] * 4,
    ],
    ids=["steady", "every other one bursts", "one late burst"],
)
def test_bursts_stay_within_a_small_ring(sizes: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Bursts(tmp_path, sizes)
    source.made = 120_000
    run(source, monkeypatch, 3_000_000)
    assert source.most <= 3_000_000
    assert "over" not in notes(tmp_path)
    assert 5 <= len(held(bytes(tmp_path))) < len(sizes), "and there is a ring, which has been full"


def test_a_segment_larger_than_the_ring_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Bursts(tmp_path, [100_000, 2_000_000, 2_000_000, 100_000, 2_000_000])
    run(source, monkeypatch, 1_000_000)
    assert source.most > 1_000_000
    assert notes(tmp_path).count("over") >= 1
    (words, *_) = [note.words for note in read_notes(bytes(tmp_path)) if note.what == "over"]
    assert "of 1,000,000" in words
    assert bytes_in(tmp_path) <= 1_000_000, "and it is back within its bounds at once"
    assert held(bytes(tmp_path))[-1].span.serial == 5, "all were stored"


def test_a_capture_takes_the_place_of_its_samples_where_there_is_no_room_for_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(Bursts(tmp_path, [0]), monkeypatch, 1 << 30)
    made = held(bytes(tmp_path))[0].size_bytes
    shutil.rmtree(tmp_path)
    tmp_path.mkdir()
    most = len(raw(0)) + made + made // 2
    source = Bursts(tmp_path, [0, 0, 0])
    run(source, monkeypatch, most)
    assert source.most <= most, "of the one before, the samples and what was made of them two fit"
    assert [one.span.serial for one in held(bytes(tmp_path))] == [3]


def test_what_a_kill_left_is_taken_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files that were not whole yet, and the summary of a capture that has gone; not a stranger's, nor what is being written."""
    left = tmp_path / ".zombiescope-0123456789abcdef"
    left.write_bytes(bytes(50_000))
    orphan = tmp_path / "20250101T000000Z.summary"
    orphan.write_bytes(b"x")
    strangers = [tmp_path / "notes.summary", tmp_path / ".zombiescope-notes", tmp_path / "20250101T000000Z.txt"]
    for path in strangers:
        path.write_bytes(b"x")
    alive = tmp_path / ".zombiescope-fedcba9876543210"
    with alive.open("wb"):
        run(Bursts(tmp_path, [0]), monkeypatch, 1 << 30)
        assert alive.exists()
    assert not left.exists()
    assert not orphan.exists()
    assert all(path.exists() for path in strangers)


def test_without_leases_only_what_is_old_is_taken_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, young = (tmp_path / f".zombiescope-{digit * 16}" for digit in "ab")
    for path in (old, young):
        path.write_bytes(b"x")
    os.utime(old, (1.0, 1.0))

    def refused(*_: object) -> int:
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))

    monkeypatch.setattr(fcntl, "fcntl", refused)
    rolling.sweep(bytes(tmp_path))
    assert list(tmp_path.iterdir()) == [young]


def test_what_is_being_written_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / ".zombiescope-fedcba9876543210").open("wb") as file:
        file.write(bytes(1_000_000))
        file.flush()
        source = Bursts(tmp_path, [300_000] * 20)
        source.made = 120_000
        run(source, monkeypatch, 3_500_000)
    assert source.most <= 3_500_000
    assert 2 <= len(held(bytes(tmp_path))) < 20


def test_a_kill_between_two_removals_leaves_nothing_uncounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever of the two it comes after."""
    run(Bursts(tmp_path, [0] * 4), monkeypatch, 1 << 30)
    unlink, removed = os.unlink, list[bytes]()

    def killed(path: bytes) -> None:
        unlink(path)
        removed.append(path)
        raise KeyboardInterrupt

    mark = ring.mark_of(bytes(tmp_path), "")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(os, "unlink", killed)
        ring.keep_ring(bytes(tmp_path), mark, ring.Bounds(1, 1e12), ring.Now(0.0, 0.0, ""))
    assert len(removed) == 1
    assert all(path.with_suffix(".zscap").exists() for path in tmp_path.glob("*" + SUMMARY.decode()))
    assert len(held(bytes(tmp_path), mark)) == 4, "what is left of it is still of the ring"


def test_a_stranger_counts_for_nothing_and_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stranger = tmp_path / "somebody-elses.zscap"
    stranger.write_bytes(bytes(5_000_000))
    run(Bursts(tmp_path, [300_000] * 5), monkeypatch, 3_000_000)
    assert stranger.stat().st_size == 5_000_000
    assert len(held(bytes(tmp_path))) == 5
    assert "over" not in notes(tmp_path)


def test_only_captures_that_changed_are_opened_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run(Bursts(tmp_path, [0] * 3), monkeypatch, 1 << 30)
    looked: list[bytes] = []

    def look(path: bytes) -> ring.Held | None:
        looked.append(path)
        return look_at(path)

    monkeypatch.setattr(ring, "look_at", look)
    seen = ring.Seen()
    first = held(bytes(tmp_path), None, seen)
    assert held(bytes(tmp_path), None, seen) == first == held(bytes(tmp_path))
    looked.clear()

    assert add_reasons(first[1].path, [Reason("asked", 1.0, "a test")])
    os.unlink(first[0].path)
    again = held(bytes(tmp_path), None, seen)
    assert looked == [first[1].path]
    assert [len(one.reasons) for one in again] == [1, 0]


class Full:
    """A ring that has a mebibyte whenever somebody looks."""

    attr = bytes(112)

    def drain(self) -> list[bytes]:
        return [bytes(1 << 20)]

    def close(self) -> None: ...


def test_our_own_sampler_ends_a_segment_at_the_first_look_that_finds_it_full(tmp_path: Path) -> None:
    source = sources.OwnSource(cast("Sampler", Full()), most_bytes=200_000)
    path = source.segment(bytes(tmp_path), lambda written: written >= 200_000, lambda: True)
    begin = len(b"".join(head(Full.attr)))
    assert os.path.getsize(path) < 200_000 + (1 << 20) + begin, "the rest waits for the next one"
    sources.drop(path)


def test_a_head_that_fills_a_segment_leaves_room_for_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine of many processes: what is told of them alone may be more than a segment of a small ring may have."""
    monkeypatch.setattr(sources, "head", lambda _: [bytes(300_000)])
    source = sources.OwnSource(cast("Sampler", Full()), most_bytes=200_000)
    path = source.segment(bytes(tmp_path), lambda written: written >= 200_000, lambda: True)
    assert os.path.getsize(path) == 300_000 + (1 << 20), "one look, not none: a segment without samples is not stored"
    sources.drop(path)


def test_the_next_segment_may_be_larger_than_one_that_held_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Bursts(tmp_path, [0])
    recording = run(source, monkeypatch, 1 << 30)
    empty = tmp_path / "20270101T000000Z.recording"
    empty.write_bytes(small_capture().pipe()[:100] + bytes(4 << 20))
    assert recording._stored(bytes(empty), b"20270101T000000Z") == []
    assert recording._segment_bytes() >= 8 << 20, "twice what that one took"
    assert "dropped" in notes(tmp_path)


def test_perf_cannot_write_more_than_its_segment_may_have(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However long nobody comes to end it."""
    program = tmp_path / "bin/perf"
    program.parent.mkdir()
    program.write_text(
        "#!/bin/sh\necho sampling has begun >&2\nwhile head -c 50000 /dev/zero; do sleep 0.02; done\nexit 1\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    folder = tmp_path / "captures"
    source = PerfSource(49, most_bytes=300_000)
    source.begin(bytes(folder))
    over = time.monotonic() + 30
    with pytest.raises(ObservationError, match="all that the ring has for one"):
        source.segment(bytes(folder), lambda _: time.monotonic() > over, lambda: True)
    assert [path.stat().st_size for path in folder.iterdir()] == [300_000]
    for path in sources.claimed():
        sources.drop(path)
