# SPDX-License-Identifier: Apache-2.0
"""Real loads that hold one core for a known time, in a child of their own: pinned, and real-time for as long as it lasts, so that
a busy host does not share the core. Each ends by itself; its truth is its own clock and the processor time it used there.

`pipes`, `cached`, `stats` and `digest` were recorded and first judged when the detector was done: no tuning has seen them. What
they showed (a load with a little work of its own was missed) led to judging by hot windows, with figures chosen on the tuning half
alone; `sockets`, `holes`, `faults`, `renames`, `parse`, `packing` and `naps` were recorded and first judged after that.
Cgroups born and dying hold other cores too (the kernel frees them in workers of its own): no load with a truth of its own.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import mmap
import os
import resource
import signal
import socket
import tempfile
import time
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

from tests.kernel.zombie_maker import Maker

_PRIORITY = 10
_SAFETY_SECONDS = 20


class Truth(NamedTuple):
    load: str
    core: int
    begin: float
    """Seconds since the epoch."""
    seconds: float
    kernel_seconds: float
    """Of its own thread, by getrusage."""
    user_seconds: float

    @property
    def is_saturating(self) -> bool:
        """In the kernel for nearly all of at least a second, by its own account."""
        return self.seconds >= 0.9 and self.kernel_seconds >= 0.8 * self.seconds


Step = Callable[[], object]


def zeros() -> Step:
    source = os.open("/dev/zero", os.O_RDONLY)
    buffer = bytearray(1 << 20)
    return lambda: os.readv(source, [buffer])


def crypt() -> Step:
    source, sink = os.open("/dev/urandom", os.O_RDONLY), os.open("/dev/null", os.O_WRONLY)
    return lambda: os.write(sink, os.read(source, 1 << 16))


def names() -> Step:
    descriptor = os.open("/proc", os.O_RDONLY)
    return lambda: os.listdir(descriptor)


def maps() -> Step:
    """Pages by the thousand, cleared and given back."""

    def step() -> None:
        mmap.mmap(-1, 32 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE).close()

    return step


def pipes() -> Step:
    """Bytes through a pipe to oneself."""
    reading, writing = os.pipe2(os.O_NONBLOCK)
    content = bytes(60_000)

    def step() -> None:
        os.write(writing, content)
        os.read(reading, len(content))

    return step


def cached() -> Step:
    """A file that lies in memory, read again and again."""
    with tempfile.TemporaryFile(dir="/dev/shm") as file:
        file.write(bytes(4 << 20))
        file.flush()
        descriptor = os.dup(file.fileno())
    buffer = bytearray(4 << 20)
    return lambda: os.preadv(descriptor, [buffer], 0)


def stats() -> Step:
    """Small system calls from Python: busy, and much of it not in the kernel."""
    return lambda: os.stat("/proc/self/status")


def digest() -> Step:
    """In user mode, without Python's own loop."""
    content = bytes(1 << 20)
    return lambda: hashlib.sha256(content).digest()


def sockets() -> Step:
    """Bytes to oneself through a pair of sockets."""
    one, other = socket.socketpair()
    one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    content, buffer = bytes(1 << 17), bytearray(1 << 17)

    def step() -> None:
        one.sendall(content)
        left = len(content)
        while left:
            left -= other.recv_into(buffer)

    return step


def holes() -> Step:
    """A file in memory that is given pages and loses them again."""
    with tempfile.TemporaryFile(dir="/dev/shm") as file:
        descriptor = os.dup(file.fileno())

    def step() -> None:
        os.posix_fallocate(descriptor, 0, 8 << 20)
        os.ftruncate(descriptor, 0)

    return step


def faults() -> Step:
    """Pages given back and touched again, one fault for each: the loop that touches them is Python's own."""
    area = mmap.mmap(-1, 4 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages = range(0, 4 << 20, mmap.PAGESIZE)

    def step() -> None:
        area.madvise(mmap.MADV_NOHUGEPAGE)
        area.madvise(mmap.MADV_DONTNEED)
        for page in pages:
            area[page] = 1

    return step


def renames() -> Step:
    """Many small system calls of a file system."""
    one, other = (f"/dev/shm/zombiescope-cores-{os.getpid()}-{letter * 100}" for letter in "ab")

    def step() -> None:
        os.close(os.open(one, os.O_CREAT | os.O_WRONLY))
        os.rename(one, other)
        os.unlink(other)

    return step


def parse() -> Step:
    text = json.dumps([{"name": str(number), "values": list(range(20))} for number in range(500)])
    return lambda: json.loads(text)


def packing() -> Step:
    content = os.urandom(1 << 16) * 4
    return lambda: zlib.compress(content, 6)


def naps() -> Step:
    """In the kernel for a tenth of a second, then asleep for as long: it leaves the core to others."""
    source = os.open("/dev/zero", os.O_RDONLY)
    buffer = bytearray(1 << 20)

    def step() -> None:
        end = time.monotonic() + 0.1
        while time.monotonic() < end:
            os.readv(source, [buffer])
        time.sleep(0.1)

    return step


def user() -> Step:
    return lambda: sum(number * number for number in range(20_000))


def half() -> Step:
    """Half in the kernel, half not: busy, and not saturated."""
    source = os.open("/dev/zero", os.O_RDONLY)
    buffer = bytearray(1 << 18)

    def step() -> None:
        begun = time.thread_time()
        for _ in range(20):
            os.readv(source, [buffer])
        spent = time.thread_time() - begun
        end = time.thread_time() + spent * 1.3
        while time.thread_time() < end:
            sum(number * number for number in range(2_000))

    return step


def sleep() -> Step:
    return lambda: time.sleep(0.05)


def reclaim(maker: Maker) -> Callable[[], Step]:
    """Asks for every page below a parent of zombies again and again: each pass visits every one of them and frees nothing."""

    def start() -> Step:
        descriptor = os.open(maker.top / "memory.force_empty", os.O_WRONLY)

        def step() -> None:
            with contextlib.suppress(OSError):
                os.write(descriptor, b"0")

        return step

    return start


LOADS: dict[str, Callable[[], Step]] = {
    "zeros": zeros, "crypt": crypt, "names": names, "maps": maps, "user": user,
    "pipes": pipes, "cached": cached, "stats": stats, "digest": digest, "half": half, "sleep": sleep,
    "sockets": sockets, "holes": holes, "faults": faults, "renames": renames, "parse": parse, "packing": packing, "naps": naps,
}  # fmt: skip


def hold(load: str, core: int, seconds: float, start: Callable[[], Step] | None = None) -> Callable[[], Truth]:
    """Begins at once, in a child; what is given back waits for its end and tells its truth."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        with contextlib.suppress(BaseException):
            told = _held(load, core, seconds, (start or LOADS[load])())
            os.write(writing, json.dumps(told).encode())
        os._exit(0)
    os.close(writing)

    def truth() -> Truth:
        with os.fdopen(reading, "rb") as file:
            told: dict[str, Any] = json.loads(file.read() or b"{}")
        os.waitpid(child, 0)
        return Truth(**told)

    return truth


def _held(load: str, core: int, seconds: float, step: Step) -> dict[str, Any]:
    signal.alarm(_SAFETY_SECONDS)
    os.sched_setaffinity(0, {core})
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(_PRIORITY))
    before = resource.getrusage(resource.RUSAGE_SELF)
    begin, start = time.time(), time.monotonic()
    while time.monotonic() - start < seconds:
        step()
    took = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "load": load,
        "core": core,
        "begin": begin,
        "seconds": took,
        "kernel_seconds": after.ru_stime - before.ru_stime,
        "user_seconds": after.ru_utime - before.ru_utime,
    }


def zombies(count: int) -> Maker:
    """A parent with so many below it; close it."""
    maker = Maker(f"zombiescope-cores-{os.getpid()}-{tempfile.gettempprefix()}{time.monotonic_ns() % 10_000}")
    maker.many(count)
    return maker
