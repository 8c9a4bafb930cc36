# SPDX-License-Identifier: Apache-2.0
"""The kernel's log as records (/dev/kmsg): sequence, time, facility, text. Opened for reading only, never waits.

Facility 0 is the kernel's own: a line that user space writes gets another one, whatever it asks for.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

PLACE = b"/dev/kmsg"
_MOST_RECORD_BYTES = 16384
_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")


class KmsgRecord(NamedTuple):
    sequence: int
    at: float
    """Seconds since the epoch: by the stamp, which counts from boot, and the clocks of now."""
    is_kernel: bool
    text: bytes


class Kmsg:
    """Raises OSError where the log may not be read."""

    def __init__(self, wall_clock: Callable[[], float], place: bytes = PLACE, *, from_end: bool = False) -> None:
        self._wall_clock = wall_clock
        self._descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._next: int | None = None
        self.lost = 0
        """Overwritten before they were read; known by the gap in the sequence."""
        if from_end:
            os.lseek(self._descriptor, 0, os.SEEK_END)

    def read(self, most: int) -> Iterator[KmsgRecord]:
        """What is there now, at most so many."""
        boot = self._wall_clock() - time.clock_gettime(time.CLOCK_MONOTONIC)
        for _ in range(most):
            try:
                raw = os.read(self._descriptor, _MOST_RECORD_BYTES)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno == errno.EPIPE:  # the next record was overwritten: the one after it is still there
                    continue
                raise
            record = parse_record(raw, boot)
            if record is None:
                continue
            if self._next is not None and record.sequence > self._next:
                self.lost += record.sequence - self._next
            self._next = record.sequence + 1
            yield record

    def close(self) -> None:
        os.close(self._descriptor)


def parse_record(raw: bytes, boot: float) -> KmsgRecord | None:
    """`priority,sequence,microseconds,flags[,…];text`, then lines of properties that begin with a space."""
    head, separator, rest = raw.partition(b";")
    fields = head.split(b",")
    if not separator or len(fields) < 3 or not all(field.isdigit() and len(field) < 21 for field in fields[:3]):
        return None
    priority, sequence, micros = (int(field) for field in fields[:3])
    text = rest.partition(b"\n")[0]
    text = _ESCAPE.sub(lambda match: bytes([int(match[1], 16)]), text)
    return KmsgRecord(sequence, boot + micros / 1e6, priority >> 3 == 0, text)
