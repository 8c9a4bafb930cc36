# SPDX-License-Identifier: Apache-2.0
"""How far CLOCK_MONOTONIC is ahead of the clock that stamps the kernel's log.

Time servers pull the first one straight; the log takes the scheduler's clock, which nobody does: they part, a little every day.
perf's own clock is the scheduler's, so an event of ours that records a name being set tells the moment on both.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import struct
import threading
import time

from zombiescope.host.page_size import PAGE_BYTES
from zombiescope.kernel.perf_events import open_event, read_ring

_SOFTWARE, _DUMMY = 1, 9
_ATTR_BYTES = 112
_TID, _TIME = 2, 4
_EXCLUDE_KERNEL, _COMM, _SAMPLE_ID_ALL = 1 << 5, 1 << 9, 1 << 18
_RECORD_COMM = 3
_SET_NAME, _GET_NAME, _NAME_BYTES = 15, 16, 16
_TRIES = 5
_MOST_NS = 3600 * 10**9
"""No clock runs away that far: something else was read."""


def monotonic_lead_ns() -> int | None:
    """Positive where the log's clock is behind. None where the kernel does not let us look."""
    raw = bytearray(_ATTR_BYTES)
    flags = _EXCLUDE_KERNEL | _COMM | _SAMPLE_ID_ALL
    struct.pack_into("<IIQQQQQ", raw, 0, _SOFTWARE, _ATTR_BYTES, _DUMMY, 0, _TID | _TIME, 0, flags)
    try:
        descriptor = open_event(bytes(raw), cpu=-1, process=0)
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
    at, found = 0, None
    while at + 8 <= len(content):
        kind, _, size = struct.unpack_from("<IHH", content, at)
        if size < 8 or at + size > len(content):
            break
        if kind == _RECORD_COMM and size >= 8 + 16:
            _, thread, stamp = struct.unpack_from("<IIQ", content, at + size - 16)
            found = stamp if thread == threading.get_native_id() else found
        at += size
    return found
