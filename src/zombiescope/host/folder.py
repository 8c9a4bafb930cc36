# SPDX-License-Identifier: Apache-2.0
"""A folder as a tree of files: `/` of this machine, an unpacked image, a mounted disk.

Every folder on the way is opened without following links, so a tree that changes under us cannot lead us out of it.
"""

from __future__ import annotations

import errno
import os
import stat

from zombiescope.host.files import Entry, Kind

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class FolderTree:
    def __init__(self, root: bytes) -> None:
        self._root = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self._root)

    def entry(self, path: bytes) -> Entry:
        parent, name = self._parent(path)
        try:
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                return Entry(Kind.LINK, status.st_size, os.readlink(name, dir_fd=parent))
        finally:
            os.close(parent)
        return Entry(_kind(status.st_mode), status.st_size, executable=bool(status.st_mode & 0o111))

    def names(self, path: bytes) -> list[bytes]:
        parent, name = self._parent(path)
        try:
            folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        finally:
            os.close(parent)
        try:
            return [os.fsencode(found) for found in os.listdir(folder)]
        finally:
            os.close(folder)

    def content(self, path: bytes, limit: int) -> bytes:
        parent, name = self._parent(path)
        try:
            handle = os.open(name, _FILE, dir_fd=parent)
        finally:
            os.close(parent)
        with open(handle, "rb", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise OSError(errno.EINVAL, "not a regular file", path)
            data = file.read(limit + 1)
        if len(data) > limit:
            raise OSError(errno.EFBIG, f"more than {limit:,} bytes: not read", path)
        return data

    def _parent(self, path: bytes) -> tuple[int, bytes]:
        """The folder that holds a path, opened step by step, and the last name."""
        names = [name for name in path.split(b"/") if name]
        here = os.dup(self._root)
        for name in names[:-1]:
            try:
                below = os.open(name, _FOLDER, dir_fd=here)
            finally:
                os.close(here)
            here = below
        return here, names[-1] if names else b"."


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return Kind.FILE
    return Kind.FOLDER if stat.S_ISDIR(mode) else Kind.OTHER
