# SPDX-License-Identifier: Apache-2.0
"""What a child says arrives whole; what it does wrong ends with it."""

from __future__ import annotations

import os
import select
import signal
import time
from collections.abc import Callable

from zombiescope.host.short_lived import ShortLived


def outcome(work: Callable[[], bytes], memory: int | None = None) -> bytes | None:
    child = ShortLived(work, memory)
    while not child.collect():
        select.select([child.descriptor], [], [], 30)
    return child.end()


def failing() -> bytes:
    raise KeyError("a bug")


def asleep() -> bytes:
    time.sleep(60)
    return b"late"


def killer_score() -> bytes:
    with open("/proc/self/oom_score_adj", "rb") as file:
        return file.read()


def test_it_says_everything_or_nothing() -> None:
    assert outcome(lambda: b"x" * 1_000_000) == b"x" * 1_000_000
    assert outcome(failing) is None
    assert outcome(lambda: b"x" * (5 << 20)) is None, "more than it may say"
    assert outcome(killer_score) == b"1000\n", "the first to go"


MUCH = 4 << 30
"""More than a large test process could still have at hand; nobody touches it."""


def test_it_has_no_more_memory_than_it_was_given() -> None:
    def hungry() -> bytes:
        try:
            return b"%d" % len(bytearray(MUCH))
        except MemoryError:
            return b"refused"

    assert outcome(hungry, 64 << 20) == b"refused"
    assert outcome(hungry) == b"%d" % MUCH
    assert outcome(lambda: b"%d" % len(bytearray(16 << 20)), 64 << 20) == b"%d" % (16 << 20)


def test_it_is_ended_when_it_takes_too_long_and_when_somebody_else_ends_it() -> None:
    before = len(os.listdir("/proc/self/fd"))
    late = ShortLived(asleep)
    assert not late.collect()
    assert late.end(kill=True) is None
    killed = ShortLived(asleep)
    os.kill(killed.process, signal.SIGKILL)
    assert killed.end() is None
    assert len(os.listdir("/proc/self/fd")) == before


def test_it_ends_with_whoever_started_it() -> None:
    """Killed, that one cannot end it: it would go on, and hold the socket that others ask."""
    reading, writing = os.pipe()
    parent = os.fork()
    if parent == 0:
        try:
            os.write(writing, b"%d\n" % ShortLived(asleep).process)
            time.sleep(60)
        finally:
            os._exit(0)
    os.close(writing)
    child = int(os.read(reading, 20))
    os.kill(parent, signal.SIGKILL)
    os.waitpid(parent, 0)
    # The pipe ends when the last one that holds it is gone.
    assert select.select([reading], [], [], 30)[0]
    assert os.read(reading, 1) == b""
    os.close(reading)
    assert child > 0
