# SPDX-License-Identifier: Apache-2.0
"""The rolling recording: what was sampled is stored, however long other things take."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from tests.profiler.perf_files import small_capture

from zombiescope.errors import ObservationError
from zombiescope.profiler.files import recorder, rolling, sources, store
from zombiescope.profiler.files.recorder import Recording
from zombiescope.profiler.files.rolling import Order
from zombiescope.profiler.files.sources import GROWING, IsOver
from zombiescope.profiler.stacks.about import Reason


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.now


class SlowSource:
    """Takes three seconds to begin; a segment is looked at every second."""

    name, why = "own", "a test"

    def __init__(self, clock: Clock) -> None:
        self.clock, self.begun, self.closed, self.seconds = clock, 0.0, False, list[float]()

    def begin(self, folder: bytes) -> None:
        if not self.begun:
            self.clock.now += 3
            self.begun = self.clock.now

    def segment(self, folder: bytes, is_over: IsOver, has_next: Callable[[], bool]) -> bytes:
        while not is_over(0):
            self.clock.now += 1
        self.seconds.append(self.clock.now - self.begun)
        self.begun = self.clock.now if has_next() else 0.0
        path = os.path.join(folder, b"segment%d" % len(self.seconds) + GROWING)
        Path(os.fsdecode(path)).write_bytes(small_capture().pipe())
        return path

    def close(self) -> None:
        self.closed = True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(recorder, "time", clock)
    monkeypatch.setattr(rolling, "time", clock)
    return clock


def record(clock: Clock, source: SlowSource, folder: Path, seconds: float, storing: float) -> list[bytes]:
    def keep(_: object) -> list[Reason]:
        clock.now += storing
        return []

    order = Order(bytes(folder), segment_seconds=2.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorder, "open_source", lambda wanted, rate: source)
        return [one.path for one in Recording(order, lambda: False, keep).segments(seconds)]


def test_time_counts_from_when_sampling_has_begun(clock: Clock, tmp_path: Path) -> None:
    source = SlowSource(clock)
    assert len(record(clock, source, tmp_path, 4, storing=0)) == 2
    assert source.seconds == [2, 2]
    assert source.closed


def test_what_is_sampled_while_storing_is_stored_too(clock: Clock, tmp_path: Path) -> None:
    source = SlowSource(clock)
    assert len(record(clock, source, tmp_path, 4, storing=30)) == 2
    assert source.seconds == [2, 30]


def leave(folder: Path, name: str, content: bytes) -> None:
    (folder / (name + GROWING.decode())).write_bytes(content)


def test_what_a_crash_left_is_kept_whatever_is_asked_for(tmp_path: Path) -> None:
    """Its events were seen by nobody; what holds nothing is named before it goes, and what just begins is another recorder's."""
    leave(tmp_path, "whole", small_capture().pipe())
    leave(tmp_path, "torn", b"PERFILE2")
    begun = sources._new_path(bytes(tmp_path))
    leave(tmp_path, "never-begun", b"")
    dropped: list[tuple[bytes, str]] = []
    recording = Recording(
        Order(bytes(tmp_path), only_around=True), lambda: True, dropped=lambda path, why: dropped.append((path, why))
    )
    stored = list(recording._left_behind())
    assert [os.path.basename(one.path) for one in stored] == [b"whole.zscap"]
    assert [os.path.basename(path) for path, _ in dropped] == [b"never-begun.recording", b"torn.recording"]
    assert all(why for _, why in dropped)
    assert [bytes(path) for path in tmp_path.glob("*.recording")] == [begun]
    sources.drop(begun)


def test_on_a_full_disk_the_samples_make_way_for_their_capture(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw: list[bytes] = []
    room = store.save

    def save(folder: bytes, name: bytes, pieces: Iterable[bytes]) -> bytes:
        if os.path.exists(raw[0]):
            error = ObservationError("cannot store", "no space left on device", "")
            raise error from OSError(errno.ENOSPC, "no space left on device")
        return room(folder, name, pieces)

    class FullSource(SlowSource):
        def segment(self, folder: bytes, is_over: IsOver, has_next: Callable[[], bool]) -> bytes:
            raw.append(sources._new_path(folder))
            Path(os.fsdecode(raw[0])).write_bytes(small_capture().pipe()[:20_000])
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(store, "save", save)
    monkeypatch.setattr(recorder, "open_source", lambda wanted, rate: FullSource(clock))
    told: list[int] = []
    with pytest.raises(ObservationError, match="cannot write the recording"):
        told.extend(len(one.capture) for one in Recording(Order(bytes(tmp_path)), lambda: False).segments(5))
    assert told == [240]
    assert {path.suffix or path.name for path in tmp_path.iterdir()} == {".zscap", ".summary", ".ring", ".recorder"}


def test_two_recorders_never_have_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that begins in the same second waits for the next, also when the other has not written anything yet."""
    now = [1000.0]

    class Seconds:
        gmtime, strftime = staticmethod(lambda: time.gmtime(now[0])), staticmethod(time.strftime)

        @staticmethod
        def sleep(seconds: float) -> None:
            now[0] += seconds

    monkeypatch.setattr(sources, "time", Seconds)
    paths = [sources._new_path(bytes(tmp_path)) for _ in range(3)]
    assert [os.path.basename(path) for path in paths] == [
        b"19700101T0016%02dZ.recording" % second for second in (40, 41, 42)
    ]
    for path in paths:
        assert os.path.getsize(path) == 0
        sources.drop(path)
