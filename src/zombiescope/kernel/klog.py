# SPDX-License-Identifier: Apache-2.0
"""The kernel's log by klogctl(3), where /dev/kmsg may not be opened: a container's device cgroup refuses the device, and CAP_SYSLOG
is enough for the call. It has lines without a sequence: what was overwritten between two looks cannot be counted."""

from __future__ import annotations

import ctypes
import os
import re
import time
from collections.abc import Callable, Iterator

from zombiescope.kernel.kmsg import KmsgRecord

_READ_ALL, _SIZE_BUFFER = 3, 10
_MOST_BYTES = 64 << 20
_LINE = re.compile(rb"<([0-9]{1,4})>\[ *([0-9]+)\.([0-9]{6})\](?:\[ *[TC][0-9]+\])? ?(.*)")


class Klog:
    """Raises OSError where it is refused."""

    lost = 0

    def __init__(self, wall_clock: Callable[[], float], *, from_end: bool = False) -> None:
        self._wall_clock = wall_clock
        self._last = b""
        """The last line that was read: what comes after it is new."""
        self._number = 0
        text = read_all()
        if from_end:
            self._last = text.rstrip(b"\n").rpartition(b"\n")[2]

    def read(self, most: int) -> Iterator[KmsgRecord]:
        boot = self._wall_clock() - time.clock_gettime(time.CLOCK_MONOTONIC)
        lines = fresh_lines(read_all(), self._last)
        for line in lines[-most:]:
            self._last = line
            record = parse_line(line, boot, self._number)
            if record is not None:
                self._number += 1
                yield record

    def close(self) -> None:
        """Nothing is held open."""


def read_all() -> bytes:
    library = ctypes.CDLL(None, use_errno=True)
    size = library.klogctl(_SIZE_BUFFER, None, 0)
    if size < 0:
        _raise()
    buffer = ctypes.create_string_buffer(min(size, _MOST_BYTES))
    length = library.klogctl(_READ_ALL, buffer, len(buffer))
    if length < 0:
        _raise()
    return buffer.raw[:length]


def _raise() -> None:
    code = ctypes.get_errno()
    raise OSError(code, os.strerror(code))


def fresh_lines(text: bytes, last: bytes) -> list[bytes]:
    """Those after the last one that was read; all where it was overwritten since."""
    if last:
        at = text.rfind(last + b"\n")
        if at >= 0:
            text = text[at + len(last) + 1 :]
    return [line for line in text.split(b"\n") if line]


def parse_line(line: bytes, boot: float, number: int) -> KmsgRecord | None:
    """`<priority>[seconds.microseconds] text`; without a time, where printk writes none, it says nothing about when."""
    found = _LINE.fullmatch(line)
    if found is None:
        return None
    at = boot + int(found[2]) + int(found[3]) / 1e6
    return KmsgRecord(number, at, int(found[1]) >> 3 == 0, found[4])
