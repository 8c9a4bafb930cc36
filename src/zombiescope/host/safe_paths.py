# SPDX-License-Identifier: Apache-2.0
"""Paths walked by descriptors, name by name: no link that appears meanwhile is followed, and a stranger's folder leads nowhere.

The rule is that of systemd-tmpfiles: from what belongs to a user, only what belongs to the same user is entered; from what
belongs to root (or to us) anything is. `/dev/shm` and `/tmp` are root's and sticky, so everybody's folder there can be entered,
and nothing of root's below it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from zombiescope.facts.names import shown

ENTRY = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
FOLDER = ENTRY | os.O_DIRECTORY
_MOST_LINKS, _MOST_BYTES = 40, 4096
_WRITABLE_BY_ALL, _WRITABLE_BY_GROUP = stat.S_IWOTH, stat.S_IWGRP


class UnsafePathError(OSError):
    def __init__(self, why: str, path: bytes) -> None:
        super().__init__(errno.EPERM, why, path)


class Rules(NamedTuple):
    """What a walk allows."""

    links: bool = True
    """Followed inside the root, as its machine would; without it one on the way is refused."""
    owners: bool = True
    """A stranger's folder leads to nothing but their own."""


CAREFUL = Rules()
STRICT = Rules(links=False)
OF_KERNEL = Rules(owners=False)
"""No user makes a link or a file there, and a cgroup may be a user's with control files of root's."""
BY_NUMBER = Rules(links=False, owners=False)
"""For what is known by device and inode and only looked at."""
READING = Rules(owners=False)
"""For a folder that stands for a machine: nothing in it is believed, and no link leads out of it."""


def is_unsafe(above: int, below: int) -> bool:
    """From something of one user to something of another."""
    return above not in (0, os.geteuid()) and above != below


@contextmanager
def parent_of(root: bytes, path: bytes, rules: Rules = CAREFUL) -> Iterator[tuple[int, bytes]]:
    """The folder that holds a path, as a descriptor, and the last name; nothing is said about the last name."""
    head, _, name = path.rstrip(b"/").rpartition(b"/")
    if name in (b"", b".", b".."):
        head, name = path, b"."
    with folder_at(root, head, rules) as folder:
        yield folder, name


@contextmanager
def folder_at(root: bytes, path: bytes, rules: Rules = CAREFUL) -> Iterator[int]:
    """A folder below a root, as a descriptor. An empty root is `/`; the way to any other is walked by the same rules."""
    with _top(root, rules) as top, below(top, path, rules) as folder:
        yield folder


@contextmanager
def below(top: int, path: bytes, rules: Rules, how: int = FOLDER) -> Iterator[int]:
    """The same from a descriptor that stands for the root. `how` is without O_DIRECTORY where any entry is wanted."""
    walk = _Walk(top, rules, how)
    try:
        walk.go(path)
        yield walk.here
    finally:
        walk.close()


@contextmanager
def _top(root: bytes, rules: Rules) -> Iterator[int]:
    if root.rstrip(b"/"):
        place = root if root.startswith(b"/") else os.getcwdb() + b"/" + root
        with folder_at(b"", place, rules._replace(links=True)) as folder:  # an operator may name a root by a link
            yield folder
        return
    folder = os.open("/", FOLDER)
    try:
        yield folder
    finally:
        os.close(folder)


class _Walk:
    """One descriptor at a time: a path may be deeper than a process may have files open."""

    def __init__(self, top: int, rules: Rules, how: int) -> None:
        self._top, self._rules, self._how = top, rules, how
        self._names: list[bytes] = []
        self.here, self._owner = os.dup(top), os.fstat(top).st_uid

    def close(self) -> None:
        os.close(self.here)

    def go(self, path: bytes) -> None:
        if len(path) > _MOST_BYTES:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG), path)
        pending, links = deque(path.split(b"/")), 0
        while pending:
            name = pending.popleft()
            if name == b"..":
                self._restart(self._names[:-1], path)
            if name in (b"", b".", b".."):
                continue
            target = self._enter(name, path)
            if target is None:
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            if target.startswith(b"/"):
                self._restart([], path)
            pending.extendleft(reversed(target.split(b"/")))

    def _enter(self, name: bytes, path: bytes) -> bytes | None:
        """The target where it is a link, and it may be followed."""
        status = os.stat(name, dir_fd=self.here, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            if not self._rules.links:
                raise UnsafePathError(f"{shown(name)} is a link by now", path)
            self._pass_on(status.st_uid, name, path)
            return os.readlink(name, dir_fd=self.here)
        self._step(name, path)
        return None

    def _step(self, name: bytes, path: bytes) -> None:
        entry = os.open(name, self._how, dir_fd=self.here)
        os.close(self.here)
        self.here = entry
        self._names.append(name)
        self._pass_on(os.fstat(entry).st_uid, name, path)

    def _pass_on(self, owner: int, name: bytes, path: bytes) -> None:
        """A link of a stranger leads only to what is theirs, wherever it points."""
        if self._rules.owners and is_unsafe(self._owner, owner):
            raise UnsafePathError(unsafe_words(self._owner, owner, name), path)
        self._owner = owner

    def _restart(self, names: list[bytes], path: bytes) -> None:
        """Upwards, or to the top: from there again, for `..` of a folder that was moved leads elsewhere. Whoever sent us there
        stays the one who sent us."""
        sender = self._owner
        top = os.dup(self._top)
        os.close(self.here)
        self.here, self._owner, self._names = top, os.fstat(top).st_uid, []
        for name in names:
            self._step(name, path)
        if is_unsafe(sender, self._owner):
            self._owner = sender


def unsafe_words(above: int, below: int, name: bytes) -> str:
    return f"{shown(name)} belongs to uid {below} and lies in a folder of uid {above}: they could exchange it"


@contextmanager
def own_folder(path: bytes, *, make: bool) -> Iterator[int]:
    """A folder that nobody but us can change, nor anything on the way to it: what is in it can be used by its path. Raises
    UnsafePathError where a stranger could; other OSErrors where it is not there."""
    place = path if path.startswith(b"/") else os.getcwdb() + b"/" + path
    names = [name for name in place.split(b"/") if name not in (b"", b".")]
    here, done = os.open("/", FOLDER), b""
    try:
        for number, name in enumerate(names, 1):
            done += b"/" + name
            if make:
                _make(here, name)
            below = _own_step(here, name, done, is_last=number == len(names))
            os.close(here)
            here = below
        yield here
    finally:
        os.close(here)


def _make(folder: int, name: bytes) -> None:
    try:
        os.mkdir(name, 0o700, dir_fd=folder)
    except OSError as error:  # such as EROFS on a folder that is there
        if error.errno not in (errno.EEXIST, errno.EROFS, errno.EACCES, errno.ENOSPC):
            raise
        try:
            os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            raise error from None


def _own_step(here: int, name: bytes, path: bytes, *, is_last: bool) -> int:
    status = os.stat(name, dir_fd=here, follow_symlinks=False)
    if status.st_uid not in (0, os.geteuid()):
        raise UnsafePathError(f"{shown(path)} belongs to uid {status.st_uid}", path)
    if stat.S_ISLNK(status.st_mode):
        if is_last:
            raise UnsafePathError(f"{shown(path)} is a link", path)
        return _behind(here, name, path)
    below = os.open(name, FOLDER, dir_fd=here)
    try:
        _require_own(os.fstat(below), path, is_last=is_last)
    except OSError:
        os.close(below)
        raise
    return below


def _behind(here: int, name: bytes, path: bytes) -> int:
    """A link of root's on the way, such as /var/run: what it leads to is looked at in the same way."""
    target = os.readlink(name, dir_fd=here)
    place = target if target.startswith(b"/") else os.path.dirname(path) + b"/" + target
    with own_folder(os.path.normpath(place), make=False) as folder:
        return os.dup(folder)


def _require_own(status: os.stat_result, path: bytes, *, is_last: bool) -> None:
    if status.st_uid not in (0, os.geteuid()):
        raise UnsafePathError(f"{shown(path)} belongs to uid {status.st_uid}", path)
    by_group = status.st_mode & _WRITABLE_BY_GROUP and status.st_gid not in (0, os.getegid())
    is_open = status.st_mode & _WRITABLE_BY_ALL or by_group
    if is_open and (is_last or not status.st_mode & stat.S_ISVTX):
        raise UnsafePathError(f"others may write to {shown(path)}", path)
