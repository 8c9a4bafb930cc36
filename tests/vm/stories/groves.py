# SPDX-License-Identifier: Apache-2.0
"""A story's own memory cgroups: made, killed and counted with nothing but system calls, so that the product is told the
truth by a second witness."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TypeVar

from tests.vm.cells import Cell

Read = TypeVar("Read")
_V1 = Path("/sys/fs/cgroup/memory")
_V2 = Path("/sys/fs/cgroup")


def memory_mount(cell: Cell) -> Path:
    return _V1 if cell.memory_is_v1 else _V2


def write(path: Path, text: str) -> None:
    """One write(2), as the kernel wants it; OSError as the kernel gives it."""
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


class Grove:
    """One live parent and its children. `held` keeps what pins the dead ones; closing it lets them go."""

    def __init__(self, cell: Cell, name: str) -> None:
        self.cell = cell
        self.folder = memory_mount(cell) / name
        self.path = f"/{name}"
        self.held = ExitStack()
        self.folder.mkdir()
        if not cell.memory_is_v1:
            write(self.folder / "cgroup.subtree_control", "+memory")

    def bury(self, name: str, pin: Callable[[Grove, Path], None]) -> None:
        """One child is born, pinned by `pin` and dies."""
        child = self.folder / name
        child.mkdir()
        pin(self, child)
        remove(child)

    def within(self, child: Path, work: Callable[[socket.socket], None], *, reap: bool = True) -> tuple[int, list[int]]:
        """Runs `work` in a process of its own inside `child`. Returns its id and the descriptors it sent."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with ours:
            process = os.fork()
            if process == 0:
                _obey(child, work, theirs)
            theirs.close()
            said, descriptors, _, _ = socket.recv_fds(ours, 16, 8)
        if reap:
            os.waitpid(process, 0)
        for descriptor in descriptors:
            self.held.callback(os.close, descriptor)
        assert said.startswith(b"done"), f"the process in {child} failed"
        return process, list(descriptors)

    def close(self) -> None:
        """Lets the pins go and removes the parent; what stays would be a lie in the next story."""
        self.held.close()
        with suppress(FileNotFoundError):
            for child in sorted(self.folder.rglob("*/"), reverse=True):
                remove(child)
            remove(self.folder)


def _obey(child: Path, work: Callable[[socket.socket], None], pipe: socket.socket) -> None:
    """The forked process: enter, work, say so, leave without any of the test's cleaning up."""
    try:
        write(child / "cgroup.procs", "0")
        work(pipe)
        with suppress(OSError):
            pipe.send(b"done")
        os._exit(0)
    except BaseException as error:  # noqa: BLE001  (it must never return into pytest)
        os.write(2, f"{child}: {error!r}\n".encode())
        os._exit(1)


def remove(folder: Path, seconds: float = 300) -> None:
    """rmdir, waiting for a process that is on its way out."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            folder.rmdir()
            return
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def dying(folder: Path) -> int:
    """v2: the kernel's count of dead cgroups below `folder`, held by anything at all."""
    for line in (folder / "cgroup.stat").read_text().splitlines():
        if line.startswith("nr_dying_descendants "):
            return int(line.split()[1])
    raise AssertionError(f"{folder}/cgroup.stat has no nr_dying_descendants")


def zombies_on_v1() -> int:
    """v1: the kernel's count of all memory cgroups, live and dead, less the directories."""
    rows = [line.split() for line in Path("/proc/cgroups").read_text().splitlines() if line.startswith("memory\t")]
    assert rows, "/proc/cgroups has no memory row"
    return int(rows[0][2]) - sum(1 for _ in os.walk(_V1))


def quiet(read: Callable[[], int], seconds: float = 3, most: float = 300) -> int:
    """A node-wide number that has come to rest: deaths of an earlier story are over."""
    os.sync()
    write(Path("/proc/sys/vm/drop_caches"), "3")
    deadline = time.monotonic() + most
    value, since = read(), time.monotonic()
    while time.monotonic() - since < seconds:
        assert time.monotonic() < deadline, "the number of zombies does not come to rest"
        time.sleep(0.2)
        if (now := read()) != value:
            value, since = now, time.monotonic()
    return value


def settled(read: Callable[[], Read], wanted: Read, seconds: float = 20) -> Read:
    """What `read` says once it is `wanted`, twice a second apart, or at last when time is up."""
    deadline = time.monotonic() + seconds
    while True:
        value = read()
        if value == wanted:
            time.sleep(1)
            value = read()
        if value == wanted or time.monotonic() > deadline:
            return value
        time.sleep(0.1)
