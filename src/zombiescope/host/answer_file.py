# SPDX-License-Identifier: Apache-2.0
"""An answer in a file that the caller named: whole or not at all, and never through a link that a stranger laid there.

A file is written beside and takes the name in one step, so that whatever stood there is replaced as a name and not written to. A
link, pipe or device (`/dev/stdout`) is opened only where root or we put it, in a folder that no stranger can swap.
"""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterable
from contextlib import suppress

from zombiescope.host.own_folder import open_own_folder

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_AS_IT_IS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOCTTY | os.O_CLOEXEC
_MODE = 0o666
"""Less what the caller's umask takes away."""


def write_answer(path: bytes, pieces: Iterable[bytes]) -> int:
    """How many bytes. Raises OSError."""
    where, name = os.path.split(path)
    found = _seen(path)
    if found is None or stat.S_ISREG(found.st_mode):
        return _replace(where or b".", name, pieces, found)
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    folder = open_own_folder(where or b".")
    try:
        return _fill(_open_trusted(folder, name), pieces)
    finally:
        os.close(folder)


def _seen(path: bytes) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except FileNotFoundError:
        return None


def _replace(where: bytes, name: bytes, pieces: Iterable[bytes], old: os.stat_result | None) -> int:
    folder = os.open(where, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    beside = b"." + secrets.token_hex(8).encode() + b".partial"
    try:
        descriptor = os.open(beside, _NEW, _MODE, dir_fd=folder)
        try:
            if old is not None and old.st_uid == os.geteuid():
                os.fchmod(descriptor, stat.S_IMODE(old.st_mode) & _MODE)  # one that was kept private stays so
            size = _fill(descriptor, pieces)
            os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with suppress(OSError):
                os.unlink(beside, dir_fd=folder)
            raise
    finally:
        os.close(folder)
    return size


def _open_trusted(folder: int, name: bytes) -> int:
    owner = os.stat(name, dir_fd=folder, follow_symlinks=False).st_uid
    if owner not in (0, os.geteuid()):
        raise PermissionError(errno.EPERM, f"it is a link, pipe or device of user {owner}")
    return os.open(name, _AS_IT_IS, _MODE, dir_fd=folder)


def _fill(descriptor: int, pieces: Iterable[bytes]) -> int:
    """Closes it."""
    size = 0
    with os.fdopen(descriptor, "wb") as file:
        for piece in pieces:
            file.write(piece)
            size += len(piece)
    return size
