# SPDX-License-Identifier: Apache-2.0
"""A folder as a tree of files: `/` of this machine, an unpacked image, a mounted disk.

Every folder on the way is opened without following links, so a tree that changes under us cannot lead us out of it.
"""

from __future__ import annotations

import errno
import os
import stat

from zombiescope.host.files import Entry, Kind
from zombiescope.host.safe_open import open_regular
from zombiescope.host.safe_paths import BY_NUMBER, parent_below


class FolderTree:
    def __init__(self, root: bytes) -> None:
        self._root = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self._root)

    def entry(self, path: bytes) -> Entry:
        with parent_below(self._root, path, BY_NUMBER) as (parent, name):
            status = os.stat(name, dir_fd=parent, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                target = os.readlink(name, dir_fd=parent)
                return Entry(Kind.LINK, status.st_size, target, modified_at=status.st_mtime)
        executable = bool(status.st_mode & 0o111)
        return Entry(_kind(status.st_mode), status.st_size, executable=executable, modified_at=status.st_mtime)

    def names(self, path: bytes) -> list[bytes]:
        with parent_below(self._root, path, BY_NUMBER) as (parent, name):
            folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        try:
            return [os.fsencode(found) for found in os.listdir(folder)]
        finally:
            os.close(folder)

    def content(self, path: bytes, limit: int) -> bytes:
        with parent_below(self._root, path, BY_NUMBER) as (parent, name):
            handle, _ = open_regular(name, dir_fd=parent)
        with open(handle, "rb", buffering=0) as file:
            data = file.read(limit + 1)
        if len(data) > limit:
            raise OSError(errno.EFBIG, f"more than {limit:,} bytes: not read", path)
        return data


def _kind(mode: int) -> Kind:
    if stat.S_ISREG(mode):
        return Kind.FILE
    return Kind.FOLDER if stat.S_ISDIR(mode) else Kind.OTHER
