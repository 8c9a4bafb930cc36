# SPDX-License-Identifier: Apache-2.0
"""This machine, or the one whose file systems are mounted below another root such as `/host`."""

import errno
import os
import re
import stat
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from zombiescope.errors import ObservationError, UsageError, reason_of
from zombiescope.facts.names import raw, shown, shown_text
from zombiescope.host.access import READ_LIMIT_BYTES, DirectoryWalk, Host, beside_recording
from zombiescope.host.safe_paths import BY_NUMBER, ENTRY, READING, below, descriptor_of


class TreeHost:
    is_live = False

    def __init__(self, root: bytes) -> None:
        self._root = root.rstrip(b"/") or b"/"
        self.label = f"the folder {shown(self._root)}"
        self._top: int | None = None

    def read(self, path: bytes, limit: int = READ_LIMIT_BYTES) -> bytes:
        with self._at(path) as place:
            # Looked at before it is opened: opening a device or a pipe is an act.
            _require_regular(os.fstat(place), path)
            descriptor = os.open(b"/proc/self/fd/%d" % place, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            content = file.read(limit + 1)
        if len(content) > limit:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
        return content

    def subdirectories(self, path: bytes) -> list[bytes]:
        with self._at(path) as place:
            return _directories_in(place)

    def directories(self, path: bytes) -> DirectoryWalk:
        paths: list[bytes] = []
        leaves: list[bytes] = []
        unreadable: list[tuple[bytes, int]] = []
        pending = [b""]
        with self._at(path) as top:
            while pending:
                inner = pending.pop()
                paths.append(inner or b"/")
                try:
                    with below(top, inner, BY_NUMBER) as folder:
                        names = _directories_in(folder)
                except OSError as error:
                    if not inner:
                        raise
                    unreadable.append((inner, error.errno or 0))
                    continue
                if not names:
                    leaves.append(paths[-1])
                pending += [inner + b"/" + name for name in reversed(names)]
        return DirectoryWalk(tuple(paths), tuple(leaves), tuple(unreadable))

    def inode(self, path: bytes) -> int | None:
        with self._at(path):
            return None

    def wait(self, seconds: float) -> None:
        """A folder stands still."""

    def wall_clock(self) -> float:
        """When the folder was last written: the nearest thing to when it was recorded."""
        try:
            return os.stat(self._root).st_mtime
        except OSError as error:
            raise ObservationError(
                f"cannot look at {self.label}", reason_of(error), "give a folder that stays"
            ) from error

    def monotonic(self) -> float:
        return 0.0

    def experiment(self, name: str, work: Callable[[], dict[str, Any]]) -> None:
        """Experimenting on a folder says nothing of the machine."""

    @contextmanager
    def _at(self, path: bytes) -> Iterator[int]:
        """What lies at a path of that machine, every link resolved inside the folder, as a descriptor that opens nothing."""
        if b"\0" in path:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        if self._top is None:
            self._top = top = os.open(self._root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            weakref.finalize(self, os.close, top)
        with below(self._top, path, READING, ENTRY) as place:
            yield place


def _directories_in(folder: int) -> list[bytes]:
    with (
        descriptor_of(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder) as opened,
        os.scandir(opened) as entries,
    ):
        return sorted(os.fsencode(entry.name) for entry in entries if entry.is_dir(follow_symlinks=False))


def _require_regular(status: os.stat_result, path: bytes) -> None:
    """Not `safe_open.py`: the folder may hold a machine's kernel files, and a reader tells a folder by its errno."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", path)


_CHUNK = 1 << 16
_GONE = (errno.ENOENT, errno.ENODEV, errno.ENOTDIR)


class LiveHost:
    is_live = True

    def __init__(self, root: bytes = b"/") -> None:
        self._prefix = root.rstrip(b"/")
        self.label = "this host" if not self._prefix else f"the host mounted at {shown(self._prefix)}"

    @property
    def root(self) -> bytes:
        """Where that machine's `/` is found on this one, without a slash at its end; empty for this host."""
        return self._prefix

    def read(self, path: bytes, limit: int = READ_LIMIT_BYTES) -> bytes:
        descriptor = os.open(self._prefix + path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            first = os.read(descriptor, _CHUNK)
            # A kernel file may hand over less than asked for before its end: only an empty read is the end.
            following = os.read(descriptor, _CHUNK) if first else b""
            if not following and len(first) <= limit:
                return first
            parts, size = [first], len(first)
            while following and size <= limit:
                parts.append(following)
                size += len(following)
                following = os.read(descriptor, _CHUNK)
            if size > limit:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
            return b"".join(parts)
        finally:
            os.close(descriptor)

    def subdirectories(self, path: bytes) -> list[bytes]:
        with os.scandir(self._prefix + path) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]

    def directories(self, path: bytes) -> DirectoryWalk:
        return walk_directories(self._prefix + path)

    def inode(self, path: bytes) -> int | None:
        return os.stat(self._prefix + path).st_ino

    def wait(self, seconds: float) -> None:
        time.sleep(seconds)

    def wall_clock(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.perf_counter()

    def experiment(self, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:  # noqa: ARG002
        return work()


def walk_directories(top: bytes) -> DirectoryWalk:
    """All directories below `top` with as few system calls as the kernel allows.

    A directory's link count is 2 + its subdirectories on cgroup file systems, so a leaf needs one stat and no readdir.
    A file system that does not keep that promise (a link count below 2) is listed all the same.
    """
    top = top.rstrip(b"/") or b"/"
    paths: list[bytes] = []
    leaves: list[bytes] = []
    unreadable: list[tuple[bytes, int]] = []
    pending = [b""]
    while pending:
        path = pending.pop()
        try:
            inner, inside = _inside(top + path or b"/", path)
        except OSError as error:
            if not path:
                raise
            if error.errno not in _GONE:
                paths.append(path)
                unreadable.append((path, error.errno or 0))
            continue
        paths.append(path or b"/")
        if not inner and not inside:
            leaves.append(path or b"/")
        leaves += inside
        paths += inside
        pending += inner
    return DirectoryWalk(tuple(paths), tuple(leaves), tuple(unreadable))


def _inside(directory: bytes, prefix: bytes) -> tuple[list[bytes], list[bytes]]:
    """Paths of the directories in one directory: those to enter, and the leaves. What vanishes meanwhile is left out."""
    inner: list[bytes] = []
    leaves: list[bytes] = []
    with os.scandir(directory) as entries:
        names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    if not names:
        return inner, leaves
    with descriptor_of(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) as descriptor:
        for name in names:
            try:
                links = os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_nlink
                (leaves if links == 2 else inner).append(prefix + b"/" + name)
            except OSError as error:
                if error.errno not in _GONE:
                    raise
    return inner, leaves


def choose_host(root: bytes | None) -> Host:
    if root is None or os.path.realpath(root) == b"/":
        return LiveHost()
    if os.path.isfile(root):
        return _recording(root)
    if why := _why_no_folder(root):
        raise UsageError(f"cannot use {shown(root)} as a root", why, "give the folder of a recorded or mounted host")
    place = os.path.realpath(root)
    if os.path.lexists(os.path.join(place, b"recording.jsonl")):
        return _recording(root)
    return LiveHost(place) if _holds_a_live_proc(place) else TreeHost(place)


def _recording(place: bytes) -> Host:
    from zombiescope.host.bundle import open_bundle  # noqa: PLC0415 (a look at the live host does not pay for it)

    return open_bundle(place)


def _why_no_folder(root: bytes) -> str:
    try:
        return "" if stat.S_ISDIR(os.stat(root).st_mode) else "it is not a folder"
    except FileNotFoundError:
        return "there is no such folder"
    except OSError as error:
        return reason_of(error)


def _holds_a_live_proc(root: bytes) -> bool:
    proc = re.sub(rb"[\\ \t\n]", lambda found: b"\\%03o" % ord(found[0]), os.path.join(root, b"proc"))
    try:
        with open("/proc/self/mountinfo", "rb") as mounts:
            halves = [line.partition(b" - ") for line in mounts]
    except OSError:
        return False  # without a mount table nothing says that it is live
    return any(after.startswith(b"proc ") and before.split(b" ")[4] == proc for before, _, after in halves)


_LONGEST = 253


class ToldHost(LiveHost):
    def __init__(self, root: bytes, node: str = "", cluster: str = "") -> None:
        """`node`: counts only for a host that is mounted elsewhere; this one knows its own name."""
        super().__init__(root or b"/")
        self._name = raw(node) + b"\n" if node and self.root else b""
        self.cluster = shown_text(cluster)[:_LONGEST]

    def read(self, path: bytes, limit: int = READ_LIMIT_BYTES) -> bytes:
        return self._name if self._name and path == b"/proc/sys/kernel/hostname" else super().read(path, limit)


def told(host: Host, node: str, cluster: str) -> Host:
    """The same host, with these names. A recording and a folder keep those that they have."""
    if type(host) is not LiveHost or not (cluster or (node and host.root)):
        return host
    return ToldHost(host.root, node, cluster)


def cluster_of(host: Host) -> str:
    """Empty where nobody told. A recording does not keep it: it is a name of somebody's."""
    beneath = beside_recording(host)
    return beneath.cluster if isinstance(beneath, ToldHost) else ""
