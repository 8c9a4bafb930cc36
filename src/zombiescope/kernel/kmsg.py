# SPDX-License-Identifier: Apache-2.0
"""The kernel's log as records (/dev/kmsg): sequence, time, facility, text. Opened for reading only, never waits. Where the device
may not be opened (a container's device cgroup refuses it, and CAP_SYSLOG is enough for the call), by klogctl(3): lines without
a sequence, so that what was overwritten between two looks cannot be counted.

Facility 0 is the kernel's own: a line that user space writes gets another one, whatever it asks for.
"""

import ctypes
import errno
import mmap
import os
import re
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from zombiescope.host.page_size import PAGE_BYTES
from zombiescope.host.safe_open import last_error
from zombiescope.kernel.perf_events import COMM, SAMPLE_ID_ALL, TID, TIME, attributes, open_event, read_ring, records

PLACE = b"/dev/kmsg"
_MOST_RECORD_BYTES = 16384
_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")


class KmsgRecord(NamedTuple):
    sequence: int
    at: float
    """Seconds since the epoch: by the stamp, which counts from boot, how far its clock is behind, and the clocks of now."""
    is_kernel: bool
    text: bytes


class Dating(NamedTuple):
    """From a stamp of the log to the wall clock. The log's clock begins with the steady one and drifts away from it, as time
    servers correct that one alone: by all of its lead now, and by a part of it for a line of long ago."""

    boot: float
    """When the steady clock was zero, on the wall."""
    lead_per_second: float = 0.0

    def on_wall(self, stamp: float) -> float:
        return self.boot + stamp * (1 + self.lead_per_second)


_LEAD_SECONDS = 600.0
"""A clock drifts by microseconds per second: its lead is looked at no more often."""


class Clocks:
    """How a stamp of the log is dated now."""

    def __init__(self, wall_clock: Callable[[], float]) -> None:
        self._wall_clock = wall_clock
        self._drift: float | None = None
        self._drift_until = 0.0

    def dating(self) -> Dating:
        steady = time.clock_gettime(time.CLOCK_MONOTONIC)
        if self._drift is None or steady >= self._drift_until:
            lead = (monotonic_lead_ns() or 0) / 1e9
            self._drift, self._drift_until = lead / max(1.0, steady - lead), steady + _LEAD_SECONDS
        return Dating(self._wall_clock() - steady, self._drift)


class Kmsg:
    """Raises OSError where the log may not be read."""

    def __init__(self, wall_clock: Callable[[], float], place: bytes = PLACE, *, from_end: bool = False) -> None:
        self._clocks = Clocks(wall_clock)
        self._descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._next: int | None = None
        self.lost = 0
        """Overwritten before they were read; known by the gap in the sequence."""
        if from_end:
            os.lseek(self._descriptor, 0, os.SEEK_END)

    def read(self, most: int) -> Iterator[KmsgRecord]:
        """What is there now, at most so many."""
        dating = self._clocks.dating()
        for _ in range(most):
            try:
                raw = os.read(self._descriptor, _MOST_RECORD_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno == errno.EPIPE:  # the next record was overwritten: the one after it is still there
                    continue
                raise
            if (record := parse_record(raw, dating)) is None:
                continue
            if self._next is not None and record.sequence > self._next:
                self.lost += record.sequence - self._next
            self._next = record.sequence + 1
            yield record

    def close(self) -> None:
        os.close(self._descriptor)


def parse_record(raw: bytes, dating: Dating) -> KmsgRecord | None:
    """`priority,sequence,microseconds,flags[,…];text`, then lines of properties that begin with a space."""
    head, separator, rest = raw.partition(b";")
    fields = head.split(b",")
    if not separator or len(fields) < 3 or not all(field.isdigit() and len(field) < 21 for field in fields[:3]):
        return None
    priority, sequence, micros = (int(field) for field in fields[:3])
    text = _ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), rest.partition(b"\n")[0])
    return KmsgRecord(sequence, dating.on_wall(micros / 1e6), priority >> 3 == 0, text)


_DUMMY, _EXCLUDE_KERNEL, _RECORD_COMM = 9, 1 << 5, 3
_SET_NAME, _GET_NAME, _NAME_BYTES, _TRIES = 15, 16, 16, 5
_MOST_NS = 3600 * 10**9
"""No clock runs away that far: something else was read."""


def monotonic_lead_ns() -> int | None:
    """Positive where the log's clock is behind. None where the kernel does not let us look."""
    try:
        descriptor = open_event(
            attributes(_DUMMY, 0, TID | TIME, _EXCLUDE_KERNEL | COMM | SAMPLE_ID_ALL), cpu=-1, process=0
        )
    except OSError:
        return None
    try:
        with mmap.mmap(descriptor, 2 * PAGE_BYTES) as ring:
            found = [lead for _ in range(_TRIES) if (lead := _look(ring)) is not None]
    except OSError:
        return None
    finally:
        os.close(descriptor)
    best = min(found, default=None)  # the shortest look is the surest
    return best[1] if best is not None and abs(best[1]) < _MOST_NS else None


def _look(ring: mmap.mmap) -> tuple[int, int] | None:
    """How long the look took, and the lead that it found."""
    before = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    _set_the_same_name()
    after = time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    stamped = _stamp(read_ring(ring, PAGE_BYTES))
    return None if stamped is None else (after - before, (before + after) // 2 - stamped)


def _set_the_same_name() -> None:
    library = ctypes.CDLL(None)
    name = ctypes.create_string_buffer(_NAME_BYTES)
    library.prctl(_GET_NAME, name, 0, 0, 0)
    library.prctl(_SET_NAME, name, 0, 0, 0)


def _stamp(content: bytes) -> int | None:
    """The time of this thread's record: it ends with process, thread and time."""
    found = None
    for kind, body in records(content):
        if kind == _RECORD_COMM and len(body) >= 16:
            _, thread, stamp = struct.unpack_from("<IIQ", body, len(body) - 16)
            found = stamp if thread == threading.get_native_id() else found
    return found


_READ_ALL, _SIZE_BUFFER, _MOST_BYTES = 3, 10, 64 << 20
_LINE = re.compile(rb"<([0-9]{1,4})>\[ *([0-9]+)\.([0-9]{6})\](?:\[ *[TC][0-9]+\])? ?(.*)")


class Klog:
    """Raises OSError where it is refused."""

    lost = 0

    def __init__(self, wall_clock: Callable[[], float], *, from_end: bool = False) -> None:
        self._clocks = Clocks(wall_clock)
        self._last = b""
        """The last line that was read: what comes after it is new."""
        self._number = 0
        text = read_all()
        if from_end:
            self._last = text.rstrip(b"\n").rpartition(b"\n")[2]

    def read(self, most: int) -> Iterator[KmsgRecord]:
        dating = self._clocks.dating()
        for line in fresh_lines(read_all(), self._last)[-most:]:
            self._last = line
            if (record := parse_line(line, dating, self._number)) is not None:
                self._number += 1
                yield record

    def close(self) -> None:
        """Nothing is held open."""


def read_all() -> bytes:
    library = ctypes.CDLL(None, use_errno=True)
    if (size := library.klogctl(_SIZE_BUFFER, None, 0)) < 0:
        raise last_error()
    buffer = ctypes.create_string_buffer(min(size, _MOST_BYTES))
    if (length := library.klogctl(_READ_ALL, buffer, len(buffer))) < 0:
        raise last_error()
    return buffer.raw[:length]


def fresh_lines(text: bytes, last: bytes) -> list[bytes]:
    """Those after the last one that was read; all where it was overwritten since."""
    fresh = text.rpartition(last + b"\n")[2] if last else text
    return [line for line in fresh.split(b"\n") if line]


def parse_line(line: bytes, dating: Dating, number: int) -> KmsgRecord | None:
    """`<priority>[seconds.microseconds] text`; without a time, where printk writes none, it says nothing about when."""
    if (found := _LINE.fullmatch(line)) is None:
        return None
    at = dating.on_wall(int(found[2]) + int(found[3]) / 1e6)
    return KmsgRecord(number, at, int(found[1]) >> 3 == 0, found[4])
