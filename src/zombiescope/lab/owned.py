# SPDX-License-Identifier: Apache-2.0
"""Folders and files that are ours alone: reached step by step by descriptor, each step checked, no link followed.

Whatever a stranger renames, links or plants meanwhile, a descriptor stays what it was when it was checked. OSError says what is
wrong in its `strerror`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.host.safe_open import open_regular

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OTHERS_WRITE = 0o022
_OTHERS = 0o077


@contextmanager
def own_folder(path: str, *, make: bool = False) -> Iterator[int]:
    """A folder that nobody else can write to, below folders in which nobody else can put another one in its place."""
    head, name = os.path.split(path)
    # Root may have linked /var/lib elsewhere; where that leads is checked step by step.
    steps = [step for step in os.path.realpath(head).split("/") if step]
    here = os.open("/", _FOLDER)
    try:
        for step in [*steps, name]:
            is_last = step is name  # by identity: a folder on the way may have the same name
            if make:
                make_folder(here, step, 0o700 if is_last else 0o755)
            above, here = here, _open_step(here, step)
            os.close(above)
            facts = os.fstat(here)
            _require(_why_foreign(facts, _OTHERS_WRITE) if is_last else _why_unsafe_step(step, facts), path)
        yield here
    finally:
        os.close(here)


@contextmanager
def own_folder_in(parent: int, name: str) -> Iterator[int]:
    """A folder that only we can enter, directly in one that is ours."""
    here = _open_step(parent, name)
    try:
        _require(_why_foreign(os.fstat(here), _OTHERS), name)
        yield here
    finally:
        os.close(here)


def open_own_file(folder: int, name: str, flags: int = os.O_RDONLY) -> int:
    """A regular file of ours alone in a folder of ours: no link, no second name elsewhere. Looked at before it is opened."""
    descriptor, facts = open_regular(name, flags, dir_fd=folder)
    reason = _why_foreign_file(facts)
    if reason:
        os.close(descriptor)
        raise PermissionError(errno.EPERM, reason, name)
    return descriptor


def is_own_file(facts: os.stat_result) -> bool:
    return stat.S_ISREG(facts.st_mode) and not _why_foreign_file(facts)


def _why_foreign_file(facts: os.stat_result) -> str:
    # None once it is deleted, one while it has its name; more: somebody else may have given it another.
    return "it has more than one name" if facts.st_nlink > 1 else _why_foreign(facts, _OTHERS)


def make_folder(parent: int, name: str, mode: int = 0o700) -> None:
    """One that is there already may be anybody's: it is looked at when it is opened."""
    try:
        os.mkdir(name, mode, dir_fd=parent)
    except FileExistsError:
        return


def _open_step(parent: int, name: str) -> int:
    try:
        return os.open(name, _FOLDER, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            raise OSError(errno.ENOTDIR, "it is not a folder", name) from None
        raise


def _require(reason: str, path: str) -> None:
    if reason:
        raise PermissionError(errno.EPERM, reason, path)


def _why_unsafe_step(step: str, facts: os.stat_result) -> str:
    """Root's folders, and such as /tmp, in which nobody can rename what is not theirs."""
    if facts.st_uid not in (0, os.geteuid()):
        return f"{step}, on the way to it, belongs to user {facts.st_uid}"
    if facts.st_mode & _OTHERS_WRITE and not facts.st_mode & stat.S_ISVTX:
        return f"{step}, on the way to it, can be written by others"
    return ""


def _why_foreign(facts: os.stat_result, forbidden: int) -> str:
    if facts.st_uid != os.geteuid():
        return f"it belongs to user {facts.st_uid}"
    if facts.st_mode & forbidden & _OTHERS_WRITE:
        return "others may write to it"
    if facts.st_mode & forbidden:
        return "others may look into it"
    return ""
