# SPDX-License-Identifier: Apache-2.0
"""A folder that stands for a machine: a recorded host or the unpacked root of an image.

Nothing outside the folder is ever read, whatever is renamed or linked meanwhile: it is walked by descriptors, links are followed
as if the folder were `/`, and only regular files are opened.
"""

from __future__ import annotations

import errno
import os
import stat
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from zombiescope.errors import ObservationError
from zombiescope.facts.names import shown
from zombiescope.host.access import READ_LIMIT_BYTES, DirectoryWalk
from zombiescope.host.safe_paths import BY_NUMBER, ENTRY, READING, below


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
            why = (error.strerror or "it cannot be looked at").lower()
            raise ObservationError(f"cannot look at {self.label}", why, "give a folder that stays") from error

    def monotonic(self) -> float:
        return 0.0

    def experiment(self, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        """Experimenting on a folder says nothing of the machine."""
        del name, work
        return None

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
    opened = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        with os.scandir(opened) as entries:
            return sorted(os.fsencode(entry.name) for entry in entries if entry.is_dir(follow_symlinks=False))
    finally:
        os.close(opened)


def _require_regular(status: os.stat_result, path: bytes) -> None:
    """Not `safe_open.py`: the folder may hold a machine's kernel files, and a reader tells a folder by its errno."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "Not a regular file", path)
