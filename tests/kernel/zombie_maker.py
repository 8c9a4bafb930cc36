# SPDX-License-Identifier: Apache-2.0
"""Makes real zombies of every kind in a subtree of its own, and takes all of it away again."""

from __future__ import annotations

import ctypes
import mmap
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from mmap import PAGESIZE
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.kernel.command import IN_MACHINE

from zombiescope.kernel.assemble import settle_batches

HIERARCHY = (
    Path("/sys/fs/cgroup/memory") if Path("/sys/fs/cgroup/memory/cgroup.procs").exists() else Path("/sys/fs/cgroup")
)
_MOST_SECONDS = 300.0 if IN_MACHINE else 120.0
"""Only a test that fails waits so long."""
_libc = ctypes.CDLL(None, use_errno=True)


def wait_until(is_so: Callable[[], bool], seconds: float = _MOST_SECONDS) -> bool:
    end = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > end:
            return False
        settle_batches()  # a page on its way to its list, freed or not, holds its cgroup
        time.sleep(0.02)
    return True


def drain() -> None:
    """Folios wait in per-CPU batches before they reach their list; other folios, on each CPU, push them there."""
    allowed = os.sched_getaffinity(0)
    try:
        for cpu in allowed:
            os.sched_setaffinity(0, {cpu})
            with tempfile.TemporaryFile(dir="/dev/shm") as file:
                for _ in range(64):
                    file.write(bytes(PAGESIZE))
                    file.flush()
    finally:
        os.sched_setaffinity(0, allowed)


class Maker:
    """A live cgroup whose children die pinned, two folders for their files, and what holds the others."""

    def __init__(self, name: str, under: Path = HIERARCHY) -> None:
        self.top = under / name
        self.prefix = b"/" + os.fsencode(self.top.relative_to(HIERARCHY))
        self._make(os.fsencode(self.top))
        self.shared = Path(tempfile.mkdtemp(prefix=name, dir="/dev/shm"))
        self.disk = Path(tempfile.mkdtemp(prefix=name, dir="/var/tmp"))
        self._held: list[Callable[[], object]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for release in self._held:
            release()
        shutil.rmtree(self.shared, ignore_errors=True)
        shutil.rmtree(self.disk, ignore_errors=True)
        for folder, _, _ in os.walk(self.top, topdown=False):
            with suppress(OSError):
                os.rmdir(folder)

    def hold(self, release: Callable[[], object]) -> None:
        self._held.append(release)

    def die(self, name: bytes, work: Callable[[], object], prepare: Callable[[bytes], object] | None = None) -> int:
        """A cgroup is born, a process works in it and ends, the directory goes. The id it had."""
        place = self.make(name)
        number = os.stat(place).st_ino
        if prepare:
            prepare(place)
        run_inside(place, work)
        os.rmdir(place)
        return number

    def make(self, name: bytes) -> bytes:
        place = os.fsencode(self.top) + b"/" + name
        self._make(place)
        return place

    def _make(self, place: bytes) -> None:
        """With memory handed down on v2, level by level."""
        above = os.path.dirname(place)
        if not os.path.isdir(above):
            self._make(above)
        with suppress(OSError), open(above + b"/cgroup.subtree_control", "w") as file:
            file.write("+memory")
        os.mkdir(place)

    def many(self, count: int, first: int = 0, folder: Path | None = None) -> None:
        """Each pinned by one page of a file of its own; one process moves from one to the next."""

        with suppress(OSError), open(self.top / "cgroup.subtree_control", "w") as file:
            file.write("+memory")

        def move_through() -> None:
            before = b""
            for number in range(first, first + count):
                place = b"%s/z%d" % (os.fsencode(self.top), number)
                os.mkdir(place)
                _enter(place)
                descriptor = os.open(
                    b"%s/z%d" % (os.fsencode(folder or self.shared), number), os.O_CREAT | os.O_WRONLY, 0o600
                )
                os.write(descriptor, b"x")
                os.close(descriptor)
                if before:
                    os.rmdir(before)
                before = place
            _enter(os.fsencode(HIERARCHY))
            os.rmdir(before)

        _fork(move_through)

    # The ways to leave something behind.

    def tmpfs(self, name: bytes, pages: int) -> Callable[[], None]:
        return lambda: _write(os.fsencode(self.shared) + b"/" + name, pages)

    def file(self, name: bytes, pages: int) -> Callable[[], None]:
        def work() -> None:
            _write(os.fsencode(self.disk) + b"/" + name, pages)
            os.sync()

        return work

    def memfd(self, name: str, pages: int) -> Callable[[], None]:
        descriptor = os.memfd_create(name)
        self.hold(lambda: os.close(descriptor))
        return lambda: void(os.write(descriptor, bytes(PAGESIZE * pages)))

    def shared_anon(self, pages: int) -> Callable[[], None]:
        area = mmap.mmap(-1, PAGESIZE * pages)
        self.hold(area.close)
        return lambda: area.__setitem__(slice(0, PAGESIZE * pages), bytes(PAGESIZE * pages))

    def segment(self, pages: int) -> Callable[[], None]:
        number = _libc.shmget(0, PAGESIZE * pages, 0o1600)
        self.hold(lambda: _libc.shmctl(number, 0, None))

        def work() -> None:
            _libc.shmat.restype = ctypes.c_void_p
            ctypes.memset(_libc.shmat(number, None, 0), 1, PAGESIZE * pages)

        return work

    def sockets(self) -> tuple[Callable[[], None], Callable[[bytes], None]]:
        """TCP sockets born inside and handed out. v1 accounts them only where a limit was set."""
        here, there = socket.socketpair()

        def work() -> None:
            with socket.socket() as server:
                server.bind(("127.0.0.1", 0))
                socket.send_fds(there, [b"x"], [server.fileno()])

        def limit(place: bytes) -> None:
            with suppress(OSError), open(place + b"/memory.kmem.tcp.limit_in_bytes", "w") as file:
                file.write(str(1 << 30))

        def release() -> None:
            here.setblocking(False)
            with suppress(BlockingIOError):
                for descriptor in socket.recv_fds(here, 1, 1)[1]:
                    os.close(descriptor)
            here.close()
            there.close()

        self.hold(release)
        return work, limit


def run_inside(place: bytes, work: Callable[[], object]) -> None:
    def inside() -> None:
        _enter(place)
        work()

    _fork(inside)


def void(_: object) -> None:
    """For a lambda that must return nothing."""


def _enter(place: bytes) -> None:
    with open(place + b"/cgroup.procs", "w") as file:
        file.write("0")


def _write(path: bytes, pages: int) -> None:
    with open(path, "wb") as file:
        file.write(b"z" * PAGESIZE * pages)


def _fork(work: Callable[[], object]) -> None:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if status:
        raise RuntimeError(f"the process inside the cgroup ended with status {status}")
