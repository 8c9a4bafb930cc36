# SPDX-License-Identifier: Apache-2.0
"""Heavy work in a short-lived child: its memory and its mistakes end with it. What it has to say comes as bytes on a pipe.

Of all processes it is the first that a host short of memory may end, and it may be held to some more address space than the one
that started it: then it fails alone.
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Callable
from contextlib import suppress

from zombiescope.host.bounds import address_space

_KINDNESS = 5
_MOST_BYTES = 4 << 20


class ShortLived:
    """`descriptor` becomes readable when there is something to `collect`. Raises OSError where no process can be started."""

    def __init__(self, work: Callable[[], bytes], memory: int | None = None) -> None:
        """`memory`: bytes of address space beyond what this process has now; None does not limit it."""
        self._parts: list[bytes] = []
        self._size = 0
        self.descriptor, writing = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            self.process = os.fork()
        except OSError:
            os.close(self.descriptor)
            os.close(writing)
            raise
        if self.process == 0:
            _work(work, writing, memory)
        os.close(writing)

    def collect(self) -> bool:
        """True when the child has said everything, or more than it may."""
        while True:
            try:
                part = os.read(self.descriptor, 1 << 16)
            except BlockingIOError:
                return False
            if not part:
                return True
            self._parts.append(part)
            self._size += len(part)
            if self._size > _MOST_BYTES:
                return True

    def end(self, *, kill: bool = False) -> bytes | None:
        """What it said, or None where it was ended, failed or said too much. Waits: `kill` it unless it has said everything."""
        os.close(self.descriptor)
        if kill or self._size > _MOST_BYTES:
            os.kill(self.process, signal.SIGKILL)
        _, status = os.waitpid(self.process, 0)
        said, self._parts = b"".join(self._parts), []
        return said if status == 0 and len(said) <= _MOST_BYTES else None


def _work(work: Callable[[], bytes], writing: int, memory: int | None) -> None:
    status = 1
    try:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        signal.set_wakeup_fd(-1)
        with suppress(OSError):
            os.nice(_KINDNESS)
        _offer_to_the_killer()
        if memory is not None:
            _limit(memory)
        os.set_blocking(writing, True)
        content = memoryview(work())
        while content:
            content = content[os.write(writing, content) :]
        status = 0
    finally:
        os._exit(status)


def _offer_to_the_killer() -> None:
    with suppress(OSError):
        descriptor = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(descriptor, b"1000")
        finally:
            os.close(descriptor)


def _limit(memory: int) -> None:
    """Where it cannot be limited it does not begin."""
    now = address_space()
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = now + memory if hard == resource.RLIM_INFINITY else min(now + memory, hard)
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
