# SPDX-License-Identifier: Apache-2.0
"""This machine, or the one whose file systems are mounted below another root such as `/host`."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable
from typing import Any

from zombiescope.errors import UsageError
from zombiescope.facts.names import shown
from zombiescope.host.access import READ_LIMIT_BYTES, DirectoryWalk, Host
from zombiescope.host.tree import TreeHost

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

    def experiment(self, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        del name
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
    stem = prefix + b"/"
    descriptor = os.open(directory, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for name in names:
            try:
                links = os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_nlink
            except OSError as error:
                if error.errno in _GONE:
                    continue
                raise
            (leaves if links == 2 else inner).append(stem + name)
    finally:
        os.close(descriptor)
    return inner, leaves


def choose_host(root: bytes | None) -> Host:
    if root is None or os.path.realpath(root) == b"/":
        return LiveHost()
    if os.path.isfile(root):
        return _recording(root)
    why = _why_no_folder(root)
    if why:
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
        status = os.stat(root)
    except FileNotFoundError:
        return "there is no such folder"
    except OSError as error:
        return (error.strerror or "it cannot be looked at").lower()
    return "" if stat.S_ISDIR(status.st_mode) else "it is not a folder"


def _holds_a_live_proc(root: bytes) -> bool:
    proc = os.path.join(root, b"proc")
    for character in b"\\ \t\n":
        proc = proc.replace(bytes([character]), b"\\%03o" % character)
    try:
        with open("/proc/self/mountinfo", "rb") as mounts:
            lines = mounts.read().split(b"\n")
    except OSError:
        return False  # without a mount table nothing says that it is live
    halves = [line.partition(b" - ") for line in lines]
    return any(after.startswith(b"proc ") and before.split(b" ")[4] == proc for before, _, after in halves)
