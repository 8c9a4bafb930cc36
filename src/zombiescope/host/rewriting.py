# SPDX-License-Identifier: Apache-2.0
"""A file's content in a new inode under the same name: nothing of it changes but who its memory is charged to.

The copy has no name until it is whole. It then trades places with the file in one call, so whoever opens the name gets either of
them, whole; what came out is looked at where nobody else can reach it, and traded back if it is not the very file (record 14).
"""

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from operator import attrgetter

from zombiescope.host import removal
from zombiescope.host.removal import Found, Held, InUseError, read_attributes, write_attributes
from zombiescope.host.safe_paths import held_open

_PART = 1 << 20


def nameless(folder: int) -> int:
    """A file that goes with its descriptor, on the file system of the folder."""
    return os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=folder)


def copy_whole(old: int, new: int) -> None:
    """Content alone, holes kept; read back and compared. Raises OSError."""
    size, at = os.fstat(old).st_size, 0
    os.ftruncate(new, size)
    while at < size:
        try:
            start = os.lseek(old, at, os.SEEK_DATA)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            break  # nothing but a hole
        at = os.lseek(old, start, os.SEEK_HOLE)
        _copy_part(old, new, start, at)
    os.fsync(new)
    if not _is_same(old, new, size):
        raise OSError(errno.EIO, "the copy is not the same as the file")


def _copy_part(old: int, new: int, start: int, end: int) -> None:
    while start < end:
        if not (part := os.pread(old, min(_PART, end - start), start)):
            raise OSError(errno.EIO, "the file became shorter")
        while part:
            written = os.pwrite(new, part, start)
            start, part = start + written, part[written:]


def _is_same(old: int, new: int, size: int) -> bool:
    return os.fstat(old).st_size == os.fstat(new).st_size == size and all(
        os.pread(old, _PART, at) == os.pread(new, _PART, at) for at in range(0, size, _PART)
    )


def take_after(file: Held, new: int) -> None:
    """Owner, mode, access lists and other attributes, times. In this order: a new owner takes away capabilities and set-id bits."""
    status = file.status
    os.fchown(new, status.st_uid, status.st_gid)
    os.fchmod(new, stat.S_IMODE(status.st_mode))
    write_attributes(new, read_attributes(file.descriptor))
    os.utime(new, ns=(status.st_atime_ns, status.st_mtime_ns))
    kept = attrgetter("st_mode", "st_uid", "st_gid", "st_size", "st_mtime_ns")
    if kept(os.fstat(new)) != kept(status):
        raise OSError(errno.EIO, "the copy did not take the file's mode, owner and times", file.name)


def restore(folder: int, name: bytes, like: Found, fill: Callable[[int], None]) -> None:
    """A new file that is whole before it has its name, which must be free: FileExistsError."""
    with held_open(nameless(folder)) as new:
        fill(new)
        os.fchown(new, like.uid, like.gid)
        os.fchmod(new, like.mode)
        write_attributes(new, like.xattrs)
        if like.mtime_ns:
            os.utime(new, ns=(like.mtime_ns, like.mtime_ns))
        os.link(b"/proc/self/fd/%d" % new, name, dst_dir_fd=folder, follow_symlinks=True)


def name_copy(new: int, place: int, number: int) -> None:
    os.link(b"/proc/self/fd/%d" % new, b"%d" % number, dst_dir_fd=place, follow_symlinks=True)


def trade_places(folder: int, file: Held, place: int, number: int) -> None:
    """The copy gets the name, and the file lies in the folder of ours. Raises InUseError or ESTALE with everything as it was."""
    if not file.still_alone():
        raise InUseError(file.name)
    removal.exchange(folder, file.name, place, b"%d" % number)
    copy_is_in, still_alone = inode_of(place, number) == file.status.st_ino, file.still_alone()
    if copy_is_in and still_alone:
        return
    _trade_back(folder, file.name, place, number)
    if copy_is_in:
        raise InUseError(file.name)
    raise OSError(errno.ESTALE, "another file has its name by now", file.name)


def _trade_back(folder: int, name: bytes, place: int, number: int) -> None:
    """What came out goes back under its name; where that is gone meanwhile, as after any deletion that was not ours."""
    try:
        removal.exchange(folder, name, place, b"%d" % number)
    except FileNotFoundError:
        removal.put_back(folder, name, place, number)


def inode_of(place: int, number: int) -> int:
    return os.stat(b"%d" % number, dir_fd=place, follow_symlinks=False).st_ino


def clear(folder: int, name: bytes, place: int, number: int, pair: tuple[int, int]) -> None:
    """Empties a place in the folder of ours. `pair`: the inodes of the file and of its copy. The copy goes, and so does the file
    once the copy has its name; anything else is put back."""
    old, copy = pair
    with suppress(FileNotFoundError):
        inode = inode_of(place, number)
        if inode == copy or (inode == old and _has_name(folder, name, copy)):
            os.unlink(b"%d" % number, dir_fd=place)
        else:
            removal.put_back(folder, name, place, number)


def _has_name(folder: int, name: bytes, inode: int) -> bool:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_ino == inode
    except FileNotFoundError:
        return False
