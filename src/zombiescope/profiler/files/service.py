# SPDX-License-Identifier: Apache-2.0
"""A recorder that goes on: through a full disk, an error that passes, a clock that is set; within a budget of processor time, by
taking fewer samples; one for each folder. Whatever it does not record it says in its journal."""

import fcntl
import os
import resource
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from zombiescope.errors import ObservationError
from zombiescope.facts.names import shown
from zombiescope.profiler.files.recorder import Recording, Segment, is_full
from zombiescope.profiler.files.rolling import writing
from zombiescope.profiler.files.sources import claimed, drop

_LOCK = b".lock"
_LOOK_SECONDS = 0.5
_TRY_SECONDS = 5.0
_MOST_FAILURES = 10
_LEAST_RATE_HZ = 5
_LEAST_OF_RATE = 0.2
_MOST_SEGMENT_SECONDS = 960.0
_AMPLE = 0.6
_COST_SECONDS = 60.0
"""Over a shorter time a single capture that is stored would look like a burden."""
_MOST_OF_DISK = 0.1
"""Room that others are left is no more than this part of a small file system."""


@dataclass(slots=True)
class Cost:
    """Processor time of this process, against a budget; and the rate that keeps within it."""

    budget: float
    """Share of a core; 0: without one."""
    asked: tuple[int, float]
    """Samples per second, and the seconds of a segment."""
    rate_hz: int
    segment_seconds: float
    share: float | None = None
    """None: not known yet."""
    _cpu: float = 0.0
    _wall: float = 0.0

    def begin(self) -> None:
        self._cpu, self._wall = _cpu_seconds(), time.monotonic()

    def look(self) -> bool:
        """Whether the next segments are recorded otherwise: fewer samples, then longer segments where the last minute cost too
        much; back again where there is ample room."""
        cpu, wall = _cpu_seconds(), time.monotonic()
        if wall - self._wall < _COST_SECONDS:
            return False
        self.share = (cpu - self._cpu) / (wall - self._wall)
        self._cpu, self._wall = cpu, wall
        before = self.rate_hz, self.segment_seconds
        if self.budget and self.share > self.budget:
            self._less(self.budget / self.share)
        elif self.budget and self.share < _AMPLE * self.budget and before != self.asked:
            self._more()
        return before != (self.rate_hz, self.segment_seconds)

    def _less(self, by: float) -> None:
        floor = max(_LEAST_RATE_HZ, int(self.asked[0] * _LEAST_OF_RATE))
        if self.rate_hz > floor:
            self.rate_hz = max(floor, int(self.rate_hz * by))
        elif self.segment_seconds < _MOST_SEGMENT_SECONDS:
            self.segment_seconds = min(_MOST_SEGMENT_SECONDS, 2 * self.segment_seconds)

    def _more(self) -> None:
        rate, seconds = self.asked
        if self.segment_seconds > seconds:
            self.segment_seconds = max(seconds, self.segment_seconds / 2)
        else:
            self.rate_hz = min(rate, self.rate_hz + max(1, self.rate_hz // 4))


def _cpu_seconds() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@dataclass(slots=True)
class Service:
    recording: Recording
    should_stop: Callable[[], bool]
    cost: Cost
    said: Callable[[str], None]
    _is_rate_new: bool = False
    _failures: int = 0

    def segments(self, seconds: float | None = None) -> Iterator[Segment]:
        """Raises where it cannot even begin."""
        ends = None if seconds is None else time.monotonic() + seconds
        lock = take_folder(self.recording.order.folder)
        stop = self.recording.should_stop
        self.recording.should_stop = lambda: stop() or self._is_rate_new
        try:
            yield from self._prepared()
            self.cost.begin()
            while not self.should_stop() and (ends is None or time.monotonic() < ends):
                yield from self._go_on(None if ends is None else max(0.0, ends - time.monotonic()))
        finally:
            self.recording.note("ended", "")
            os.close(lock)

    def _prepared(self) -> Iterator[Segment]:
        """A start on a full disk waits, too: what an earlier recorder left needs room."""
        while not self.should_stop():
            try:
                yield from self.recording.prepare()
                return
            except ObservationError as error:
                if not is_full(error):
                    raise
                self.said(f"{error.what}: {error.why}; it begins when there is room")
                self.recording.make_room()
                self._sleep(_TRY_SECONDS)

    def _go_on(self, seconds: float | None) -> Iterator[Segment]:
        """Samples until the rate changes, or something is in the way; then waits until it is not."""
        if not self._wait_for_room():
            return
        self._is_rate_new = False
        self.recording.order = replace(
            self.recording.order, rate_hz=self.cost.rate_hz, segment_seconds=self.cost.segment_seconds
        )
        try:
            for one in self.recording.sample(seconds):
                self._failures = 0
                yield one
                self._watch_cost()
                if not self.recording.make_room():
                    return
        except ObservationError as error:
            self._failures += 1
            for path in [path for path in claimed() if os.path.dirname(path) == self.recording.order.folder]:
                drop(path)  # it could not be stored, and would only take the room of the next
            if is_full(error):
                self.recording.note("full", error.why)
                self.said(f"{error.what}: {error.why}; it goes on when there is room")
                self.recording.make_room()
                return
            self.recording.note("failed", f"{error.what}: {error.why}")
            self.said(f"{error.what}: {error.why}")
            if self._failures >= _MOST_FAILURES or not self.recording.has_sampled:
                raise
            self._sleep(_TRY_SECONDS * self._failures)

    def _watch_cost(self) -> None:
        if not self.cost.look():
            return
        self._is_rate_new = True
        words = (
            f"{self.cost.rate_hz} samples per second and core, in captures of {self.cost.segment_seconds:g} s from now on: "
            f"it took {100 * (self.cost.share or 0.0):.2f} % of a core"
        )
        self.recording.note("rate", words)
        self.said(words)

    def _wait_for_room(self) -> bool:
        """False: it was stopped meanwhile."""
        is_told = False
        while not self.should_stop():
            if self.recording.make_room():
                if is_told:
                    self.recording.note("room", "")
                    self.said("there is room again")
                return True
            if not is_told:
                is_told = True
                free, least = self.recording.free_bytes(), self.recording.order.least_free_bytes
                words = f"{free / 1e6:,.0f} MB are free on the disk, less than the {least / 1e6:,.0f} MB that others are left"
                self.recording.note("full", words)
                self.said(f"nothing is recorded: {words}")
            self._sleep(_TRY_SECONDS)
        return False

    def _sleep(self, seconds: float) -> None:
        over = time.monotonic() + seconds
        while time.monotonic() < over and not self.should_stop():
            time.sleep(_LOOK_SECONDS)


def room_for_others(folder: bytes, wished: int) -> int:
    """What the file system must have left, as far as it is large enough for that."""
    with writing(folder):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.statvfs(folder)
    return min(wished, int(found.f_blocks * found.f_frsize * _MOST_OF_DISK))


def take_folder(folder: bytes) -> int:
    """Held until it is closed. The kernel lets go of it whatever ends us."""
    with writing(folder):
        os.makedirs(folder, mode=0o700, exist_ok=True)
        descriptor = os.open(os.path.join(folder, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise ObservationError(
            f"cannot record into {shown(folder)}",
            "another recorder is at work there",
            "zombiescope profile ring says what it does; --captures DIR records elsewhere",
        ) from error
    return descriptor
