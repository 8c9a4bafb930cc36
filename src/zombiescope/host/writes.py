# SPDX-License-Identifier: Apache-2.0
"""The only way to change a machine, or the root folder of one: files, links, kernel files, units, memory.

Nothing is decided here and nothing is remembered: `execution` writes its journal first. `fault` is told before and after each
change, so that a test can end the process between any two.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from zombiescope.host.attributes import read_attributes, write_attributes
from zombiescope.host.child import run_in_child
from zombiescope.host.files import Files
from zombiescope.host.folder import FolderTree
from zombiescope.host.found import Found
from zombiescope.host.page_size import PAGE_BYTES
from zombiescope.host.programs import Ran, ask_program

READ_LIMIT_BYTES = 1 << 20
_BATCH_PAGES = 64
_IPC_RMID = 0
_SWAP_FLAG_PREFER = 0x8000
_BESIDE = b".zombiescope-new"
NUDGE = b"zombiescope-nudge"
"""The cgroup that is made to be removed at once."""
Fault = Callable[[str], None]


class Writer:
    """`root`: a folder that stands for the machine; empty for this one."""

    def __init__(self, root: bytes = b"", fault: Fault = lambda _: None) -> None:
        self.root = root.rstrip(b"/")
        self._fault = fault

    # Looking.

    def look(self, path: bytes) -> Found:
        try:
            place = self._place(path)
            status = os.lstat(place)
        except (FileNotFoundError, NotADirectoryError):
            return Found("absent")
        if stat.S_ISLNK(status.st_mode):
            owner, at = (status.st_uid, status.st_gid), status.st_mtime_ns
            return Found("link", os.readlink(place), 0, *owner, at, read_attributes(place))
        if stat.S_ISDIR(status.st_mode):
            return Found("folder")
        if not stat.S_ISREG(status.st_mode):
            return Found("other")
        with open(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            content = file.read(READ_LIMIT_BYTES + 1)
            xattrs = read_attributes(file.fileno())
        if len(content) > READ_LIMIT_BYTES:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
        mode = stat.S_IMODE(status.st_mode)
        return Found("file", content, mode, status.st_uid, status.st_gid, status.st_mtime_ns, xattrs)

    def identity(self, path: bytes) -> tuple[int, int]:
        """Inode and size, not following a link; raises OSError."""
        status = os.lstat(self._place(path))
        return (status.st_ino, status.st_size) if stat.S_ISREG(status.st_mode) else (0, 0)

    def read_value(self, path: bytes) -> bytes:
        """A kernel file's value."""
        with open(self._place(path), "rb") as file:
            return file.read(READ_LIMIT_BYTES).strip()

    # Files, links and folders of the machine.

    def make_folder(self, path: bytes) -> None:
        self._do("make_folder", lambda: os.mkdir(self._place(path), 0o755))

    def remove_folder(self, path: bytes) -> None:
        self._do("remove_folder", lambda: os.rmdir(self._place(path)))

    def place_link(self, path: bytes, target: bytes, like: Found | None = None) -> None:
        """`like`: whose owner, time and label it gets."""

        def work() -> None:
            os.symlink(target, self._place(path))
            if like is not None and like.mtime_ns:
                os.chown(self._place(path), like.uid, like.gid, follow_symlinks=False)
                write_attributes(self._place(path), like.xattrs)
                os.utime(self._place(path), ns=(like.mtime_ns, like.mtime_ns), follow_symlinks=False)
            _sync_folder(os.path.dirname(self._place(path)))

        self._do("place_link", work)

    def remove(self, path: bytes) -> None:
        def work() -> None:
            place = self._place(path)
            os.unlink(place)
            _sync_folder(os.path.dirname(place))

        self._do("remove", work)

    def place_file(self, path: bytes, what: Found) -> None:
        """Whole or not at all: beside it, synced, then renamed."""
        self._do("place_file", lambda: self._replace(self._place(path), what))

    def clear_beside(self, path: bytes) -> None:
        """What a kill left of a file that never got its name."""
        with suppress(FileNotFoundError, NotADirectoryError):
            os.unlink(self._place(path) + _BESIDE)

    @staticmethod
    def _replace(place: bytes, what: Found) -> None:
        beside = place + _BESIDE
        with suppress(FileNotFoundError):
            os.unlink(beside)
        try:
            handle = os.open(beside, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with open(handle, "wb") as file:
                file.write(what.content)
                file.flush()
                if (what.uid, what.gid) != (os.geteuid(), os.getegid()):
                    os.fchown(file.fileno(), what.uid, what.gid)
                os.fchmod(file.fileno(), what.mode)
                write_attributes(file.fileno(), what.xattrs)
                os.fsync(file.fileno())
            if what.mtime_ns:
                os.utime(beside, ns=(what.mtime_ns, what.mtime_ns))
            os.rename(beside, place)
        except OSError:
            with suppress(OSError):
                os.unlink(beside)
            raise
        _sync_folder(os.path.dirname(place))

    def delete(self, path: bytes) -> None:
        """Without a sync: files in memory have no disk to sync to."""
        self._do("delete", lambda: os.unlink(self._place(path)))

    # The kernel.

    def set_file(self, path: bytes, value: bytes) -> None:
        self._do("set_file", lambda: _write_once(self._place(path), value))

    def set_file_in_child(self, path: bytes, value: bytes, seconds: float) -> bool:
        """For a write that may take very long: False when it was interrupted after so many seconds."""
        self._fault("before:set_file_in_child")
        code = run_in_child(lambda: _write_once(self._place(path), value), seconds)
        self._fault("after:set_file_in_child")
        if code is None:
            return False
        if code > 0 and code not in (errno.EAGAIN, errno.EBUSY, errno.EINTR):
            raise OSError(code, os.strerror(code), path)
        return True

    def drop_cache(self, path: bytes, inode: int | None) -> None:
        def work() -> None:
            with the_file(self._place(path), inode) as descriptor:
                let_cache_go(descriptor)

        self._do("drop_cache", work)

    def remove_segment(self, number: int) -> None:
        def work() -> None:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.shmctl(number, _IPC_RMID, None) != 0:
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code))

        self._do("remove_segment", work)

    def sync(self) -> None:
        self._do("sync", os.sync)

    def let_one_die(self, folder: bytes) -> None:
        """A cgroup is made and removed at once."""
        name = self._place(folder) + b"/" + NUDGE

        def work() -> None:
            with suppress(FileExistsError):
                os.mkdir(name)
            os.rmdir(name)

        self._do("let_one_die", work)

    def swap(self, device: bytes, *, on: bool, priority: int = -1) -> None:
        """A priority below 0 is the kernel's own choice."""

        def work() -> None:
            libc = ctypes.CDLL(None, use_errno=True)
            flags = _SWAP_FLAG_PREFER | priority if priority >= 0 else 0
            done = libc.swapon(device, flags) if on else libc.swapoff(device)
            if done != 0:
                code = ctypes.get_errno()
                raise OSError(code, os.strerror(code), device)

        self._do("swapon" if on else "swapoff", work)

    def settle(self) -> None:
        """Fresh pages of our own through every CPU's batch: what was just freed waits there."""
        cpus = os.sched_getaffinity(0)
        handle = os.memfd_create("zombiescope")
        try:
            for cpu in cpus:
                os.sched_setaffinity(0, {cpu})
                os.pwrite(handle, bytes(PAGE_BYTES * _BATCH_PAGES), 0)
                os.ftruncate(handle, 0)
        finally:
            os.sched_setaffinity(0, cpus)
            os.close(handle)

    # Units.

    def systemctl(self, *words: str, seconds: float = 150.0) -> Ran:
        """Raises OSError where it is not installed or does not end in time."""
        changes = words[0] not in ("show", "is-active", "is-enabled")
        if changes:
            self._fault(f"before:systemctl {words[0]}")
        ran = ask_program("systemctl", *words, seconds=seconds)
        if ran is None:
            raise OSError(errno.ENOENT, "systemctl is not installed")
        if changes:
            self._fault(f"after:systemctl {words[0]}")
        return ran

    def _do(self, name: str, work: Callable[[], object]) -> None:
        self._fault(f"before:{name}")
        work()
        self._fault(f"after:{name}")

    def _place(self, path: bytes) -> bytes:
        """In a root folder links are followed as that machine would: none leads out of it."""
        if not self.root:
            return path
        tree = FolderTree(self.root)
        try:
            return self.root + Files(tree).resolve(path, last=False)
        finally:
            tree.close()


@contextmanager
def the_file(place: bytes, inode: int | None) -> Iterator[int]:
    """Open the very file that was seen: never through a link, never waiting, and without marking it as read. Raises OSError when
    another has its name by now."""
    how = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    try:
        descriptor = os.open(place, how | os.O_NOATIME)
    except PermissionError:  # O_NOATIME is the owner's
        descriptor = os.open(place, how)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file any more", place)
        if inode is not None and found.st_ino != inode:
            raise OSError(errno.ESTALE, "another file has its name by now", place)
        yield descriptor
    finally:
        os.close(descriptor)


def let_cache_go(descriptor: int) -> None:
    """Clean pages that nobody maps; the file stays."""
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)


def _write_once(place: bytes, value: bytes) -> None:
    handle = os.open(place, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(handle, value)
    finally:
        os.close(handle)


def _sync_folder(folder: bytes) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
