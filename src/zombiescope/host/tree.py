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

from zombiescope.errors import ObservationError
from zombiescope.facts.names import shown
from zombiescope.host.access import READ_LIMIT_BYTES, DirectoryWalk

_MOST_LINKS = 40


class TreeHost:
    is_live = False

    def __init__(self, root: bytes) -> None:
        self._root = root.rstrip(b"/") or b"/"
        self.label = f"the folder {shown(self._root)}"

    def read(self, path: bytes, limit: int = READ_LIMIT_BYTES) -> bytes:
        place = self._place(path)
        # Looked at before it is opened: opening a device or a pipe is an act.
        _require_regular(os.lstat(place), path)
        descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            content = file.read(limit + 1)
        if len(content) > limit:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
        return content

    def subdirectories(self, path: bytes) -> list[bytes]:
        return _directories_in(self._place(path))

    def directories(self, path: bytes) -> DirectoryWalk:
        top = self._place(path)
        paths: list[bytes] = []
        leaves: list[bytes] = []
        unreadable: list[tuple[bytes, int]] = []
        pending = [b""]
        while pending:
            inner = pending.pop()
            paths.append(inner or b"/")
            try:
                names = _directories_in(top + inner)
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
        self._place(path)
        return None

    def wait(self, seconds: float) -> None:
        """A folder stands still."""

    def wall_clock(self) -> float:
        """When the folder was last written: the nearest thing to when it was recorded."""
        try:
            return os.stat(self._root).st_mtime
        except OSError as error:
            why = (error.strerror or "it cannot be looked at").lower()
            raise ObservationError(f"cannot look at {self.label}", why, "give a folder that stays") from error

    def monotonic(self) -> float:
        return 0.0

    def experiment(self, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        """Experimenting on a folder says nothing of the machine."""
        del name, work
        return None

    def _place(self, path: bytes) -> bytes:
        """Where a path of that machine lies on this one, every link resolved inside the folder."""
        if b"\0" in path:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
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


def _directories_in(place: bytes) -> list[bytes]:
    with os.scandir(place) as entries:
        return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))


def _require_regular(status: os.stat_result, path: bytes) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", path)
