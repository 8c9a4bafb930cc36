# SPDX-License-Identifier: Apache-2.0
"""An answer in a file that the caller named: whole or not at all, and never through a link that a stranger laid there.

A file is written beside and takes the name in one step, so that whatever stood there is replaced as a name and not written to. A
link, pipe or device (`/dev/stdout`) is opened only where root or we put it, in a folder that no stranger can swap.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator

from zombiescope.host.own_folder import guarded_folder
from zombiescope.host.whole_file import named_folder, write_whole_in

_AS_IT_IS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOCTTY | os.O_CLOEXEC
_MODE = 0o666
"""Less what the caller's umask takes away."""


def write_answer(path: bytes, pieces: Iterable[bytes]) -> int:
    """How many bytes. Raises OSError."""
    where, name = os.path.split(path)
    counted = _Counted(pieces)
    with named_folder(where) as folder:
        found = _seen(folder, name)
        if found is None or stat.S_ISREG(found.st_mode):
            write_whole_in(folder, name, counted, mode=_mode(found), sync=False)
            return counted.size
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    with guarded_folder(os.fsdecode(where)) as folder, os.fdopen(_open_trusted(folder, name), "wb") as file:
        file.writelines(counted)
    return counted.size


class _Counted:
    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces, self.size = pieces, 0

    def __iter__(self) -> Iterator[bytes]:
        for piece in self._pieces:
            self.size += len(piece)
            yield piece


def _seen(folder: int, name: bytes) -> os.stat_result | None:
    try:
        return os.stat(name or b".", dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _mode(old: os.stat_result | None) -> int:
    """One that was kept private stays so."""
    if old is not None and old.st_uid == os.geteuid():
        return stat.S_IMODE(old.st_mode) & _MODE
    mask = os.umask(0o077)
    os.umask(mask)
    return _MODE & ~mask


def _open_trusted(folder: int, name: bytes) -> int:
    owner = os.stat(name, dir_fd=folder, follow_symlinks=False).st_uid
    if owner not in (0, os.geteuid()):
        raise PermissionError(errno.EPERM, f"it is a link, pipe or device of uid {owner}")
    return os.open(name, _AS_IT_IS, _MODE, dir_fd=folder)
