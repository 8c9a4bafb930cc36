# SPDX-License-Identifier: Apache-2.0
"""This machine, or the one whose file systems are mounted below another root such as `/host`."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable
from typing import Any

from zombiescope.host.access import READ_LIMIT_BYTES, DirectoryWalk

_CHUNK = 1 << 16
_GONE = (errno.ENOENT, errno.ENODEV, errno.ENOTDIR)


class LiveHost:
    is_live = True

    def __init__(self, root: bytes = b"/") -> None:
        self._prefix = root.rstrip(b"/")
        self.label = "this host" if not self._prefix else f"the host mounted at {os.fsdecode(self._prefix)}"

    def read(self, path: bytes, limit: int = READ_LIMIT_BYTES) -> bytes:
        descriptor = os.open(self._prefix + path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            first = os.read(descriptor, _CHUNK)
            # A kernel file may hand over less than asked for before its end: only an empty read is the end.
            following = os.read(descriptor, _CHUNK) if first else b""
            if not following:
                return first
            parts, size = [first], len(first)
            while following:
                parts.append(following)
                size += len(following)
                if size > limit:
                    raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
                following = os.read(descriptor, _CHUNK)
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

    A directory's link count is 2 + its subdirectories on cgroup file systems, so a leaf needs one stat and no readdir, and a
    listing may stop at the last subdirectory. A file system that does not keep that promise (link count below 2) is listed.
    """
    top = top.rstrip(b"/") or b"/"
    links = os.stat(top).st_nlink
    paths: list[bytes] = []
    leaves: list[bytes] = []
    unreadable: list[tuple[bytes, int]] = []
    pending = [(b"/", links)]
    while pending:
        path, links = pending.pop()
        paths.append(path)
        if links == 2:
            leaves.append(path)
            continue
        try:
            inside = _inside(top if path == b"/" else top + path)
        except OSError as error:
            if error.errno in _GONE:
                paths.pop()
            else:
                unreadable.append((path, error.errno or 0))
            continue
        if not inside:
            leaves.append(path)
        prefix = b"" if path == b"/" else path
        pending.extend((prefix + b"/" + name, links) for name, links in inside)
    return DirectoryWalk(tuple(paths), tuple(leaves), tuple(unreadable))


def _inside(directory: bytes) -> list[tuple[bytes, int]]:
    """Names and link counts of the directories in one directory; what vanishes meanwhile is left out."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    found = []
    try:
        with os.scandir(descriptor) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
        for name in names:
            try:
                seen = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
            except OSError as error:
                if error.errno in _GONE:
                    continue
                raise
            if stat.S_ISDIR(seen.st_mode):
                found.append((os.fsencode(name), seen.st_nlink))
    finally:
        os.close(descriptor)
    return found
