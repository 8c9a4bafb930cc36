# SPDX-License-Identifier: Apache-2.0
"""The recorder that goes on: its budget, its room, one for each folder, and what it says when it cannot record."""

from __future__ import annotations

import errno
import os
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.profiler.perf_files import TOOLS, record, small_capture

from zombiescope.errors import ObservationError
from zombiescope.profiler.files import recorder, service
from zombiescope.profiler.files.beside import ask_to_keep, read_notes
from zombiescope.profiler.files.recorder import Recording
from zombiescope.profiler.files.ring import held
from zombiescope.profiler.files.rolling import Order
from zombiescope.profiler.files.service import Cost, Service, room_for_others, take_folder
from zombiescope.profiler.files.sources import GROWING, IsOver
from zombiescope.profiler.perf.importing import import_perf
from zombiescope.profiler.stacks.about import Reason

FIRST = int(import_perf(memoryview(bytearray(small_capture().pipe())), TOOLS, "test").time[0])


class Seconds:
    """A clock that moves when somebody sleeps."""

    def __init__(self) -> None:
        self.now, self.cpu, self.wall = 1000.0, 0.0, 1_700_000_000.0

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return self.wall + self.now

    def process_time(self) -> float:
        return self.cpu

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def dated(wall: float) -> bytes:
    """Whose first sample was taken then: the clocks stand behind the event."""
    raw = small_capture().pipe()
    behind = 16 + struct.unpack_from("<H", raw, 16 + 6)[0]
    clocks = record(80, 0, struct.pack("<QIIQQ", 29, 1, time.CLOCK_MONOTONIC, round(wall * 1e9), FIRST))
    return raw[:behind] + clocks + raw[behind:]


class Source:
    """Segments of ten seconds; each may fail first."""

    name, why = "own", "a test"

    def __init__(self, clock: Seconds, failures: list[int | None]) -> None:
        self.clock, self.failures, self.made = clock, failures, 0

    def begin(self, folder: bytes) -> None: ...

    def segment(self, folder: bytes, is_over: IsOver, has_next: Callable[[], bool]) -> bytes:
        failed = self.failures.pop(0) if self.failures else None
        if failed:
            raise OSError(failed, os.strerror(failed))
        began = self.clock.time()
        self.clock.now += 10
        self.made += 1
        path = os.path.join(folder, b"segment-%04d" % (self.clock.now // 10) + GROWING)
        Path(os.fsdecode(path)).write_bytes(dated(began))
        return path

    def close(self) -> None: ...


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Seconds:
    clock = Seconds()
    for module in (recorder, service):
        monkeypatch.setattr(module, "time", clock)
    monkeypatch.setattr("zombiescope.profiler.files.rolling.time", clock)
    monkeypatch.setattr(service, "_cpu_seconds", lambda: clock.cpu)
    return clock


class Run:
    def __init__(self, folder: Path, clock: Seconds, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.clock, self.patch = folder, clock, monkeypatch
        self.said: list[str] = []

    def serve(self, source: Source, stored: int, order: Order | None = None, cost: Cost | None = None) -> Service:
        """Until so many captures are stored."""
        self.patch.setattr(recorder, "open_source", lambda wanted, rate: source)
        recording = Recording(order or Order(bytes(self.folder)), lambda: source.made >= stored)
        made = Service(
            recording, lambda: source.made >= stored, cost or Cost(0.0, (49, 10.0), 49, 10.0), self.said.append
        )
        list(made.segments())
        return made

    def notes(self) -> list[str]:
        return [note.what for note in read_notes(bytes(self.folder))]


@pytest.fixture
def run(tmp_path: Path, clock: Seconds, monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(tmp_path, clock, monkeypatch)


def test_it_goes_on_after_a_full_disk_and_says_so(run: Run, clock: Seconds) -> None:
    run.serve(Source(clock, [None, errno.ENOSPC, None]), 3)
    assert len(held(bytes(run.folder))) == 3
    assert run.notes() == ["began", "full", "ended"]
    assert any("goes on when there is room" in words for words in run.said)


def test_it_waits_while_others_need_the_room(run: Run, clock: Seconds, monkeypatch: pytest.MonkeyPatch) -> None:
    free = iter([10, 10, 10, 500])
    monkeypatch.setattr(Recording, "free_bytes", lambda _: next(free, 500))
    run.serve(Source(clock, []), 2, Order(bytes(run.folder), least_free_bytes=100))
    assert run.notes() == ["began", "full", "room", "ended"]


def test_a_start_on_a_full_disk_waits(run: Run, clock: Seconds, monkeypatch: pytest.MonkeyPatch) -> None:
    begin = Recording.prepare
    failures = [True, True]

    def prepare(recording: Recording) -> Iterator[recorder.Segment]:
        if failures:
            failures.pop()
            raise ObservationError("cannot store", "no space left on device", "") from OSError(errno.ENOSPC, "")
        return begin(recording)

    monkeypatch.setattr(Recording, "prepare", prepare)
    run.serve(Source(clock, []), 1)
    assert len(held(bytes(run.folder))) == 1
    assert sum("begins when there is room" in words for words in run.said) == 2


def test_an_error_that_passes_is_noted_and_one_that_stays_ends_it(run: Run, clock: Seconds) -> None:
    run.serve(Source(clock, [None, errno.EIO, None]), 3)
    assert run.notes() == ["began", "failed", "ended"]
    with pytest.raises(ObservationError):
        run.serve(Source(clock, [None, *[errno.EIO] * 20]), 5)
    with pytest.raises(ObservationError):  # it could not even begin: somebody else must help
        run.serve(Source(clock, [errno.EIO]), 1)


def test_within_a_budget_fewer_samples_then_longer_segments_and_back(clock: Seconds) -> None:
    cost = Cost(0.01, (49, 120.0), 49, 120.0)
    cost.begin()

    def spend(share: float) -> bool:
        clock.now += 120
        clock.cpu += 120 * share
        return cost.look()

    assert not spend(0.009)
    assert spend(0.02)
    assert cost.rate_hz == 24
    assert spend(0.05)
    assert cost.rate_hz == 9, "not below a fifth of what was asked for"
    assert spend(0.05)
    assert (cost.rate_hz, cost.segment_seconds) == (9, 240)
    for _ in range(20):
        spend(0.001)
    assert (cost.rate_hz, cost.segment_seconds) == (49, 120)


def test_a_short_look_is_no_look(clock: Seconds) -> None:
    """A capture that was just stored is no burden for long."""
    cost = Cost(0.01, (49, 5.0), 49, 5.0)
    cost.begin()
    clock.now, clock.cpu = clock.now + 5, clock.cpu + 1
    assert not cost.look()


def test_without_a_budget_there_is_no_limit(clock: Seconds) -> None:
    cost = Cost(0.0, (49, 5.0), 49, 5.0)
    cost.begin()
    clock.now, clock.cpu = clock.now + 100, clock.cpu + 100
    assert not cost.look()
    assert cost.share == 1.0


def test_a_change_of_the_rate_is_noted(run: Run, clock: Seconds) -> None:
    class Costly(Source):
        def segment(self, folder: bytes, is_over: IsOver, has_next: Callable[[], bool]) -> bytes:
            self.clock.cpu += 10
            return super().segment(folder, is_over, has_next)

    made = run.serve(Costly(clock, []), 12, cost=Cost(0.5, (49, 10.0), 49, 10.0))
    assert made.recording.order.rate_hz < 49
    assert "rate" in run.notes()


def test_one_recorder_for_each_folder(tmp_path: Path) -> None:
    lock = take_folder(bytes(tmp_path))
    with pytest.raises(ObservationError, match="another recorder is at work"):
        take_folder(bytes(tmp_path))
    os.close(lock)
    os.close(take_folder(bytes(tmp_path)))


def test_a_small_disk_is_not_all_for_others(tmp_path: Path) -> None:
    found = os.statvfs(tmp_path)
    assert room_for_others(bytes(tmp_path), 1) == 1
    assert room_for_others(bytes(tmp_path), 1 << 60) == int(found.f_blocks * found.f_frsize * 0.1)


def kept_for(run: Run) -> list[list[str]]:
    return [[reason.words for reason in one.reasons] for one in held(bytes(run.folder))]


def test_what_somebody_asks_to_keep_is_kept_with_its_neighbours(run: Run, clock: Seconds) -> None:
    """Asked for while the second of five is recorded: fourteen seconds before it and after."""
    assert ask_to_keep(bytes(run.folder), Reason("asked", clock.time() + 15, "checkout was slow"))
    run.serve(Source(clock, []), 5, Order(bytes(run.folder), around_seconds=14))
    assert kept_for(run) == [["checkout was slow"]] * 3 + [[]] * 2


def test_who_asks_says_how_long_around_the_moment(run: Run, clock: Seconds) -> None:
    """Not only of what is there: also of what is recorded next."""
    assert ask_to_keep(bytes(run.folder), Reason("asked", clock.time() + 15, "checkout was slow", 14))
    run.serve(Source(clock, []), 5, Order(bytes(run.folder), around_seconds=0))
    assert kept_for(run) == [["checkout was slow"]] * 3 + [[]] * 2


def test_a_moment_known_late_keeps_what_was_stored_before(run: Run, clock: Seconds) -> None:
    """A finding may be told of long after the moment that it is about."""
    moment = Reason("finding", clock.time() + 1, "zombie-population: critical")
    told = iter([(), (), (), (moment,)])
    source = Source(clock, [])
    run.patch.setattr(recorder, "open_source", lambda wanted, rate: source)
    recording = Recording(
        Order(bytes(run.folder), around_seconds=2), lambda: source.made >= 5, lambda _: next(told, ())
    )
    list(recording.segments(None))
    assert kept_for(run) == [["zombie-population: critical"], [], [], [], []]
