# SPDX-License-Identifier: Apache-2.0
"""A rolling recording as files: who samples writes one segment after the other, and nothing is read of them here.

Needs no numpy: what a build without it records, another one reads.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from zombiescope.errors import ObservationError
from zombiescope.facts.names import shown
from zombiescope.profiler.files.sources import AUTO, GROWING, Source, claimed

MOST_SEGMENT_BYTES = 512 << 20
_LAST_WORDS_SECONDS = 10.0
_JUMP_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Order:
    folder: bytes
    rate_hz: int = 99
    segment_seconds: float = 120.0
    most_bytes: int = 1 << 30
    most_age_seconds: float = 7 * 86_400.0
    source: str = AUTO
    purpose: str = ""
    """Of the ring: recordings for different purposes never remove each other's segments."""
    only_around: bool = False
    """Store only segments in which something happened, the one before and the one after."""
    around_seconds: float = 120.0
    """Before and after a moment worth keeping."""
    least_free_bytes: int = 0


def name_of(path: bytes) -> bytes:
    """The name of a segment that is being written."""
    return os.path.basename(path)[: -len(GROWING)]


def rolling(
    order: Order,
    source: Source,
    should_stop: Callable[[], bool],
    seconds: float | None,
    most_bytes: Callable[[], int] = lambda: MOST_SEGMENT_BYTES,
) -> Iterator[bytes]:
    """The file of each segment that is over: to be stored before the next one is asked for. `most_bytes`: of the next one."""
    with writing(order.folder):
        source.begin(order.folder)
    ends = None if seconds is None else time.monotonic() + seconds

    def is_over() -> bool:
        return should_stop() or (ends is not None and time.monotonic() >= ends)

    is_last = False
    while not is_last:
        try:
            path = _segment(order, source, is_over, most_bytes())
        except ObservationError:
            # What the segment has that could not go on, for want of room or of perf.
            yield from [path for path in claimed()[:1] if os.path.dirname(path) == order.folder]
            raise
        # Asked before it is stored: what is sampled meanwhile is a segment too, however long storing takes.
        is_last = is_over()
        yield path


def _segment(order: Order, source: Source, is_last: Callable[[], bool], most: int) -> bytes:
    with writing(order.folder):
        source.begin(order.folder)
        over = time.monotonic() + order.segment_seconds
        clock = _lead_seconds()
        return source.segment(
            order.folder,
            lambda written: time.monotonic() >= over or written >= most or _is_set(clock) or is_last(),
            lambda: not is_last(),
        )


def _lead_seconds() -> float:
    """The wall clock before the steady one."""
    return time.time() - time.monotonic()


def _is_set(lead: float) -> bool:
    """A clock that somebody sets ends the segment: each is dated by one clock, and the next by the new one."""
    return abs(_lead_seconds() - lead) >= _JUMP_SECONDS


@contextlib.contextmanager
def writing(folder: bytes) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ObservationError(
            f"cannot write the recording (in {shown(folder)})", why, "choose --captures elsewhere"
        ) from error


def left_behind(folder: bytes) -> Iterator[bytes]:
    """Segments of a recording that was killed. One that somebody still writes is theirs."""
    names: list[bytes] = []
    with contextlib.suppress(FileNotFoundError):
        names = sorted(name for name in os.listdir(folder) if name.endswith(GROWING))
    for name in names:
        path = os.path.join(folder, name)
        with contextlib.suppress(FileNotFoundError):
            if not _is_growing(path):
                yield path


def _is_growing(path: bytes) -> bool:
    """Whether its recorder lives, or a process has it open for writing: perf writes what it has when its recorder dies, and gets a
    moment for that."""
    over = time.monotonic() + _LAST_WORDS_SECONDS
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            except BlockingIOError:
                return True
            try:
                # The kernel grants a lease on reading only where nobody writes.
                fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            except OSError as error:
                if error.errno != errno.EAGAIN:
                    return False  # a file system without leases
                if time.monotonic() >= over:
                    return True
                time.sleep(_LAST_WORDS_SECONDS / 20)
            else:
                return False
    finally:
        os.close(descriptor)
