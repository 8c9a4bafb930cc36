# SPDX-License-Identifier: Apache-2.0
"""A folder by descriptor that no stranger can swap, on the whole way to it: for what root writes where others may be.

Every folder on the way belongs to root or to us and only they may write to it; one with the sticky bit (`/tmp`) will do, for
nobody takes away there what is not theirs. A link is followed where such a folder holds it and root or we made it.
"""

from __future__ import annotations

import errno
import os
import stat

from zombiescope.facts.names import shown

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_LINKS = 40


def open_own_folder(path: bytes) -> int:
    """The caller closes it. Raises OSError; PermissionError where a stranger could reach in."""
    rest = os.path.join(os.getcwdb(), path).split(b"/")[::-1]
    folder, links = os.open(b"/", _FOLDER), 0
    try:
        _check(os.fstat(folder), path)
        while rest:
            name = rest.pop()
            if name in (b"", b"."):
                continue
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISLNK(found.st_mode):
                folder = _exchange(folder, os.open(name, _FOLDER, dir_fd=folder))
                _check(os.fstat(folder), path)
                continue
            links += 1
            _check_link(found, links, path)
            target = os.readlink(name, dir_fd=folder)
            rest += target.split(b"/")[::-1]
            if target.startswith(b"/"):
                folder = _exchange(folder, os.open(b"/", _FOLDER))
    except BaseException:
        os.close(folder)
        raise
    return folder


def _exchange(old: int, new: int) -> int:
    os.close(old)
    return new


def _check(folder: os.stat_result, path: bytes) -> None:
    _check_owner(folder, path)
    others = stat.S_IWOTH | (stat.S_IWGRP if folder.st_gid not in (0, os.getegid()) else 0)
    if folder.st_mode & others and not folder.st_mode & stat.S_ISVTX:
        raise PermissionError(errno.EPERM, f"others may write to a folder on the way to {shown(path)}")


def _check_link(link: os.stat_result, links: int, path: bytes) -> None:
    if links > _MOST_LINKS:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    _check_owner(link, path)


def _check_owner(found: os.stat_result, path: bytes) -> None:
    if found.st_uid not in (0, os.geteuid()):
        raise PermissionError(errno.EPERM, f"user {found.st_uid} owns a folder or link on the way to {shown(path)}")
