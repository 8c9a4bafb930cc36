# SPDX-License-Identifier: Apache-2.0
"""A folder that stands for a machine: a recorded host or the unpacked root of an image.

Nothing outside the folder is ever read: links are followed as if the folder were `/`, and only regular files are opened.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Callable
from typing import Any

from zombiescope.host.access import READ_LIMIT_BYTES, DirectoryWalk

_MOST_LINKS = 40


class TreeHost:
    is_live = False

    def __init__(self, root: bytes) -> None:
        self._root = root.rstrip(b"/") or b"/"
        self.label = f"the folder {os.fsdecode(self._root)}"

    def read(self, path: bytes, limit: int = READ_LIMIT_BYTES) -> bytes:
        descriptor = os.open(self._place(path), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(errno.EINVAL, "not a regular file", path)
            content = file.read(limit + 1)
        if len(content) > limit:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
        return content

    def subdirectories(self, path: bytes) -> list[bytes]:
        with os.scandir(self._place(path)) as entries:
            return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))

    def directories(self, path: bytes) -> DirectoryWalk:
        top = self._place(path)
        paths: list[bytes] = []
        leaves: list[bytes] = []
        unreadable: list[tuple[bytes, int]] = []
        for where, names, _ in os.walk(top, onerror=lambda error: unreadable.append(_refusal(top, error))):
            names[:] = sorted(name for name in names if not os.path.islink(os.path.join(where, name)))
            paths.append(where[len(top) :] or b"/")
            if not names:
                leaves.append(paths[-1])
        if not paths:
            raise OSError(unreadable[0][1] if unreadable else errno.ENOENT, "cannot list the directory", path)
        return DirectoryWalk(tuple(paths), tuple(leaves), tuple(unreadable))

    def inode(self, path: bytes) -> int | None:
        self._place(path)
        return None

    def wait(self, seconds: float) -> None:
        """A folder stands still."""

    def wall_clock(self) -> float:
        """When the folder was last written: the nearest thing to when it was recorded."""
        return os.stat(self._root).st_mtime

    def monotonic(self) -> float:
        return 0.0

    def experiment(self, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        """Experimenting on a folder says nothing of the machine."""
        del name, work
        return None

    def _place(self, path: bytes) -> bytes:
        """Where a path of that machine lies on this one, every link resolved inside the folder."""
        place: list[bytes] = []
        pending = deque(path.split(b"/"))
        links = 0
        while pending:
            name = pending.popleft()
            if name in (b"", b"."):
                continue
            if name == b"..":
                del place[-1:]
                continue
            here = b"/".join([self._root, *place, name])
            if not stat.S_ISLNK(os.lstat(here).st_mode):
                place.append(name)
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            target = os.readlink(here)
            if target.startswith(b"/"):
                place.clear()
            pending.extendleft(reversed(target.split(b"/")))
        return b"/".join([self._root, *place]) if place else self._root


def _refusal(top: bytes, error: OSError) -> tuple[bytes, int]:
    where = os.fsencode(error.filename) if error.filename is not None else top
    return where[len(top) :] or b"/", error.errno or 0
