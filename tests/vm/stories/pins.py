# SPDX-License-Identifier: Apache-2.0
"""One way to keep a dead memory cgroup for each kind of pin, and on which kernels it does.

From 7.1 on a dying group hands its pages to its parent, so a page alone keeps nothing; what keeps one there is swap,
a file that was dirty at death, a socket, a process or a namespace.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from mmap import PAGESIZE
from pathlib import Path

from tests.vm.cells import Cell
from tests.vm.stories.groves import Grove, write

PAGE = b"z" * PAGESIZE
FILES = Path("/var/tmp")
SHARED = Path("/dev/shm")
_IPC_CREAT, _IPC_RMID, _CLONE_NEWCGROUP = 0o1000, 0, 0x02000000
_MADV_PAGEOUT = 21
_libc = ctypes.CDLL(None, use_errno=True)
_libc.shmat.restype = ctypes.c_void_p


@dataclass(frozen=True, slots=True)
class Pin:
    kind: str
    bury: Callable[[Grove, Path], None]
    is_a_page: bool = False
    has_a_mark: bool = True
    on_v1: bool = True

    def keeps(self, cell: Cell) -> bool:
        """Whether a group pinned so becomes a zombie in this cell."""
        if cell.memory_is_v1 and not self.on_v1:
            return False
        return not (self.is_a_page and cell.reparents)


def _unique(folder: Path, grove: Grove, child: Path) -> Path:
    path = folder / f"{grove.folder.name}-{child.name}"
    grove.held.callback(path.unlink, missing_ok=True)
    return path


def _page_cache(grove: Grove, child: Path) -> None:
    path = _unique(FILES, grove, child)
    with path.open("wb") as file:
        file.write(PAGE)
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def read(_: socket.socket) -> None:
        # Without O_NOATIME the read itself would dirty the inode, and the pin would be another one.
        os.read(os.open(path, os.O_RDONLY | os.O_NOATIME), PAGESIZE)

    grove.within(child, read)


def _writeback(grove: Grove, child: Path) -> None:
    path = _unique(FILES, grove, child)

    def dirty(_: socket.socket) -> None:
        path.write_bytes(PAGE)

    grove.within(child, dirty)


def _tmpfs(grove: Grove, child: Path) -> None:
    path = _unique(SHARED, grove, child)

    def fill(_: socket.socket) -> None:
        path.write_bytes(PAGE)

    grove.within(child, fill)


def _memfd(grove: Grove, child: Path) -> None:
    def fill(pipe: socket.socket) -> None:
        descriptor = os.memfd_create("story")
        os.write(descriptor, PAGE)
        socket.send_fds(pipe, [b"done"], [descriptor])

    grove.within(child, fill)


def _shared_anon(grove: Grove, child: Path) -> None:
    memory = mmap.mmap(-1, PAGESIZE)
    grove.held.callback(memory.close)

    def touch(_: socket.socket) -> None:
        memory[:] = PAGE

    grove.within(child, touch)


def _sysv_shm(grove: Grove, child: Path) -> None:
    segment = _libc.shmget(0, PAGESIZE, _IPC_CREAT | 0o600)
    assert segment >= 0, os.strerror(ctypes.get_errno())
    grove.held.callback(_libc.shmctl, segment, _IPC_RMID, None)

    def fill(_: socket.socket) -> None:
        address = _libc.shmat(segment, None, 0)
        ctypes.memmove(address, PAGE, len(PAGE))

    grove.within(child, fill)


def _anon(grove: Grove, child: Path) -> None:
    home = _home(grove)

    def touch_and_leave(pipe: socket.socket) -> None:
        memory = mmap.mmap(-1, 4 * PAGESIZE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        memory[:] = PAGE * 4
        write(home / "cgroup.procs", "0")
        pipe.send(b"done")
        signal.pause()

    process, _ = grove.within(child, touch_and_leave, reap=False)
    grove.held.callback(_end, process)


def _home(grove: Grove) -> Path:
    """A live group beside the dead ones for those who moved out."""
    home = grove.folder / "home"
    home.mkdir(exist_ok=True)
    return home


def _end(process: int) -> None:
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


def _socket(grove: Grove, child: Path) -> None:
    def open_sockets(pipe: socket.socket) -> None:
        one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        socket.send_fds(pipe, [b"done"], [one.fileno(), other.fileno()])

    grove.within(child, open_sockets)


def _task(grove: Grove, child: Path) -> None:
    process, _ = grove.within(child, lambda _: None, reap=False)
    while "\nState:\tZ" not in Path(f"/proc/{process}/status").read_text():
        time.sleep(0.01)
    grove.held.callback(os.waitpid, process, 0)


def _namespace(grove: Grove, child: Path) -> None:
    def enter_own(pipe: socket.socket) -> None:
        assert _libc.unshare(_CLONE_NEWCGROUP) == 0, os.strerror(ctypes.get_errno())
        socket.send_fds(pipe, [b"done"], [os.open("/proc/self/ns/cgroup", os.O_RDONLY)])

    grove.within(child, enter_own)


def _swap(grove: Grove, child: Path) -> None:
    """Paged out while alive: afterwards neither reclaim nor drop_caches can free it, on any kernel."""
    _tmpfs(grove, child)
    _page_out(child, lambda: is_swapped(child))


def _swap_alone(grove: Grove, child: Path) -> None:
    """Paged out, and out of memory: a page that was just written is there a while, in the swap cache, and swapped in from
    there it is still the dead one's."""
    _tmpfs(grove, child)
    _page_out(child, lambda: is_swapped(child) and anonymous_pages(child) == 0)


def _swap_cache(grove: Grove, child: Path) -> None:
    """Written out once, and not asked to leave memory."""
    path = _unique(SHARED, grove, child)

    def write_out(_: socket.socket) -> None:
        path.write_bytes(PAGE)
        with path.open("r+b") as file, mmap.mmap(file.fileno(), len(PAGE)) as memory:
            deadline = time.monotonic() + 300
            while not is_swapped(child):  # a page still in the batch of another CPU is passed over
                assert memory[0], "only a mapped page can be advised on"
                memory.madvise(_MADV_PAGEOUT)
                assert time.monotonic() < deadline, "it was not swapped out"

    grove.within(child, write_out)


def is_swapped(folder: Path) -> bool:
    return int((folder / "memory.swap.current").read_text()) != 0


def anonymous_pages(folder: Path) -> int:
    """As the lists of the kernel count them: shared memory and what is in the swap cache are among them."""
    words = dict(line.split() for line in (folder / "memory.stat").read_text().splitlines())
    return (int(words["inactive_anon"]) + int(words["active_anon"])) // len(PAGE)


def _page_out(child: Path, is_done: Callable[[], bool]) -> None:
    lever = child / "memory.reclaim"
    lever, amount = (lever, "1M") if lever.exists() else (child / "memory.high", "0")  # 5.10 has no memory.reclaim
    deadline = time.monotonic() + 300
    while not is_done():
        assert time.monotonic() < deadline, f"{child}: it was not swapped out"
        try:
            write(lever, amount)
        except BlockingIOError:
            time.sleep(0.1)


PINS = (
    Pin("page_cache", _page_cache, is_a_page=True),
    Pin("tmpfs", _tmpfs, is_a_page=True),
    Pin("memfd", _memfd, is_a_page=True),
    Pin("shared_anon", _shared_anon, is_a_page=True),
    Pin("sysv_shm", _sysv_shm, is_a_page=True),
    Pin("anon", _anon, is_a_page=True),
    Pin("writeback", _writeback),
    Pin("socket", _socket, has_a_mark=False, on_v1=False),
    Pin("task", _task, has_a_mark=False),
    Pin("namespace", _namespace, has_a_mark=False),
)
SWAP = Pin("swap", _swap)
SWAP_ALONE = Pin("swap", _swap_alone)
SWAP_CACHE = Pin("swap", _swap_cache, is_a_page=True)
