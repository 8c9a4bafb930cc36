# SPDX-License-Identifier: Apache-2.0
"""Folders and files that are ours alone, by descriptor, at the end of a way that no stranger can exchange (`safe_paths.py`).

Whatever a stranger renames, links or plants meanwhile, a descriptor stays what it was when it was checked. OSError says what is
wrong in its `strerror`; it is UnsafePathError where a stranger could reach in.
"""

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import NamedTuple

from zombiescope.host.safe_open import open_regular, why_foreign
from zombiescope.host.safe_paths import (
    GUARDED,
    UnsafePathError,
    descriptor_of,
    folder_at,
    held_open,
    make_folder,
    parent_of,
    strangers_bits,
)
from zombiescope.host.whole_file import named_folder, write_whole_in


def open_nothing() -> int:
    try:
        return os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return os.memfd_create("zombiescope-nothing")


_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Whose(NamedTuple):
    """Who may have a folder that we use as our own."""

    root: bool = False
    """Root's is as good as ours."""
    group: bool = False
    """Root's group and ours may write, there and on the way."""
    parents: int = 0o755
    """The mode of folders that are made on the way."""
    mode: int = 0o700
    """Of the last, where it is made."""


OURS = Whose()
STATE = Whose(root=True, group=True, parents=0o700)
"""An operator names it: it may lie in the home of a user whose group is theirs alone, and may have been made by root."""

HISTORY = STATE._replace(parents=0o750, mode=0o750)
"""The same, and its group may read: what an agent remembers."""


def guarded_folder(path: str) -> AbstractContextManager[int]:
    """Where a file of ours is put among others': the last folder may be a link of root's or sticky, as all on the way."""
    return folder_at(os.fsencode(path or "."), b"", GUARDED)


@contextmanager
def own_folder(path: str, whose: Whose = OURS, *, make: bool = False) -> Iterator[int]:
    """A folder that nobody else can write to, below folders in which nobody else can put another one in its place: what is in it
    can be used by its path."""
    if make:
        _close_fresh_volume(path, whose.mode)
    way = GUARDED._replace(group=whose.group, make=whose.parents if make else None)
    with parent_of(b"", os.path.join(os.getcwdb(), os.fsencode(path)), way) as (above, name):
        if make:
            make_folder(above, name, whose.mode)
        with _entered(above, name) as (folder, status):
            owners = (os.geteuid(), 0) if whose.root else (os.geteuid(),)
            _require(why_foreign(status, owners, strangers_bits(status, group=whose.group)), path)
            yield folder


def _close_fresh_volume(path: str, mode: int) -> None:
    """An empty volume of a pod is open to everybody (emptyDir): ours, mounted for us, nothing in it yet. We close it and go on.
    A folder for all, as /tmp and /dev/shm, is sticky: it stays as it is."""
    with suppress(OSError), descriptor_of(path, _FOLDER) as folder:
        status, above = os.fstat(folder), os.stat("..", dir_fd=folder)
        is_ours = status.st_uid == os.geteuid() and stat.S_IMODE(status.st_mode) & ~stat.S_ISGID == 0o777
        if is_ours and status.st_dev != above.st_dev and not os.listdir(folder):
            os.fchmod(folder, mode)


def ensure_folder(path: bytes, whose: Whose = HISTORY) -> None:
    """Made where it is missing: after it, names in the folder can be used by their paths. It may be a link of root's, as systemd
    lays one for a service with a user of its own. Raises OSError."""
    with own_folder(os.fsdecode(path) + "/.", whose, make=True):
        return


@contextmanager
def own_folder_in(parent: int, name: bytes | str) -> Iterator[int]:
    """A folder that only we can enter, directly in one that we hold."""
    with _entered(parent, name) as (folder, status):
        _require(_why_not_alone(status), name)
        yield folder


@contextmanager
def _entered(parent: int, name: bytes | str) -> Iterator[tuple[int, os.stat_result]]:
    try:
        folder = os.open(name, _FOLDER, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            raise UnsafePathError("it is not a folder", os.fsencode(name)) from None
        raise
    with held_open(folder):
        yield folder, os.fstat(folder)


def open_own_file(folder: int, name: str, flags: int = os.O_RDONLY) -> int:
    """A regular file of ours alone in a folder of ours: no link, no second name elsewhere. Looked at before it is opened."""
    return open_regular(name, flags, dir_fd=folder, check=lambda status: _require(_why_foreign_file(status), name))[0]


def is_own_file(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode) and not _why_foreign_file(status)


def _why_foreign_file(status: os.stat_result) -> str:
    # None once it is deleted, one while it has its name; more: somebody else may have given it another.
    return "it has more than one name" if status.st_nlink > 1 else _why_not_alone(status)


def _why_not_alone(status: os.stat_result) -> str:
    return why_foreign(status, (os.geteuid(),), stat.S_IRWXG | stat.S_IRWXO)


def _require(reason: str, path: bytes | str) -> None:
    if reason:
        raise UnsafePathError(reason, os.fsencode(path))


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
