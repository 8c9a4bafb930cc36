# SPDX-License-Identifier: Apache-2.0
"""Paths walked by descriptors, name by name: no link that appears meanwhile is followed, and a stranger's folder leads nowhere.

The rule is that of systemd-tmpfiles: from what belongs to a user, only what belongs to the same user is entered; from what
belongs to root (or to us) anything is. `/dev/shm` and `/tmp` are root's and sticky, so everybody's folder there can be entered,
and nothing of root's below it.
"""

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


class UnsafePathError(PermissionError):
    def __init__(self, why: str, path: bytes) -> None:
        super().__init__(errno.EPERM, why, path)


class Rules(NamedTuple):
    """What a walk allows."""

    links: bool = True
    """Followed inside the root, as its machine would; without it one on the way is refused."""
    owners: bool = True
    """A stranger's folder leads to nothing but their own."""
    guarded: bool = False
    """Nobody but root and us can exchange anything on the way: it is theirs or ours, links too, and others cannot write to it
    unless it is sticky (`/tmp`), where nobody takes away what is not theirs."""
    group: bool = True
    """For that, root's group and ours count as us."""
    make: int | None = None
    """Folders that are not there are made, with this mode."""


CAREFUL = Rules()
STRICT = Rules(links=False)
OF_KERNEL = Rules(owners=False)
"""No user makes a link or a file there, and a cgroup may be a user's with control files of root's."""
BY_NUMBER = Rules(links=False, owners=False)
"""For what is known by device and inode and only looked at."""
READING = Rules(owners=False)
"""For a folder that stands for a machine: nothing in it is believed, and no link leads out of it."""
GUARDED = Rules(guarded=True)
"""For what root writes where others may be: no stranger can reach in, on the whole way."""


def strangers_bits(status: os.stat_result, *, group: bool) -> int:
    """The bits that let strangers write. `group`: root's group and ours are none."""
    return stat.S_IWOTH | (0 if group and status.st_gid in (0, os.getegid()) else stat.S_IWGRP)


def is_unsafe(above: int, below: int) -> bool:
    """From something of one user to something of another."""
    return above not in (0, os.geteuid()) and above != below


@contextmanager
def parent_of(root: bytes, path: bytes, rules: Rules = CAREFUL) -> Iterator[tuple[int, bytes]]:
    """The folder that holds a path, as a descriptor, and the last name; nothing is said about the last name."""
    with _top(root, rules) as top, parent_below(top, path, rules) as found:
        yield found


@contextmanager
def parent_below(top: int, path: bytes, rules: Rules) -> Iterator[tuple[int, bytes]]:
    """The same from a descriptor that stands for the root."""
    head, _, name = path.rstrip(b"/").rpartition(b"/")
    if name in (b"", b".", b".."):
        head, name = path, b"."
    with below(top, head, rules) as folder:
        yield folder, name


@contextmanager
def folder_at(root: bytes, path: bytes, rules: Rules = CAREFUL) -> Iterator[int]:
    """A folder below a root, as a descriptor. An empty root is `/`; the way to any other is walked by the same rules."""
    with _top(root, rules) as top, below(top, path, rules) as folder:
        yield folder


@contextmanager
def below(top: int, path: bytes, rules: Rules, how: int = FOLDER) -> Iterator[int]:
    """The folder, from a descriptor that stands for the root. `how` is without O_DIRECTORY where any entry is wanted."""
    walk = _Walk(top, rules, how)
    try:
        walk.go(path)
        yield walk.here
    finally:
        walk.close()


@contextmanager
def descriptor_of(path: bytes | str, flags: int, *, dir_fd: int | None = None) -> Iterator[int]:
    """One that is opened as it is called, and closed: for names that no stranger chose."""
    with held_open(os.open(path, flags, dir_fd=dir_fd)) as descriptor:
        yield descriptor


@contextmanager
def held_open(descriptor: int) -> Iterator[int]:
    """Closed at the end, however that comes."""
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _top(root: bytes, rules: Rules) -> Iterator[int]:
    if root.rstrip(b"/"):
        # An operator may name a root by a link.
        with folder_at(b"", os.path.join(os.getcwdb(), root), rules._replace(links=True)) as folder:
            yield folder
        return
    with descriptor_of("/", FOLDER) as folder:
        yield folder


class _Walk:
    """One descriptor at a time: a path may be deeper than a process may have files open."""

    def __init__(self, top: int, rules: Rules, how: int) -> None:
        self._top, self._rules, self._how = top, rules, how
        self._names: list[bytes] = []
        status = os.fstat(top)
        self._guard(status, b"")
        self.here, self._owner = os.dup(top), status.st_uid

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
            if (target := self._enter(name, path)) is None:
                continue
            links += 1
            if links > _MOST_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            if target.startswith(b"/"):
                self._restart([], path)
            pending.extendleft(reversed(target.split(b"/")))

    def _enter(self, name: bytes, path: bytes) -> bytes | None:
        """The target where it is a link, and it may be followed."""
        if self._rules.make is not None and not (self._rules.owners and is_unsafe(self._owner, os.geteuid())):
            make_folder(self.here, name, self._rules.make)  # for a stranger none is: it could not be entered
        status = os.stat(name, dir_fd=self.here, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            if not self._rules.links:
                raise UnsafePathError(f"{shown(name)} is a link by now", path)
            self._pass_on(status, name, path)
            return os.readlink(name, dir_fd=self.here)
        self._step(name, path)
        return None

    def _step(self, name: bytes, path: bytes) -> None:
        entry = os.open(name, self._how, dir_fd=self.here)
        os.close(self.here)
        self.here = entry
        self._pass_on(os.fstat(entry), name, path)
        self._names.append(name)

    def _pass_on(self, status: os.stat_result, name: bytes, path: bytes) -> None:
        """A link of a stranger leads only to what is theirs, wherever it points."""
        self._guard(status, name)
        owner = status.st_uid
        if self._rules.owners and is_unsafe(self._owner, owner):
            raise UnsafePathError(unsafe_words(self._owner, owner, name), path)
        self._owner = owner

    def _guard(self, status: os.stat_result, name: bytes) -> None:
        if not self._rules.guarded:
            return
        place = b"/" + b"/".join([*self._names, name])
        if status.st_uid not in (0, os.geteuid()):
            raise UnsafePathError(f"{shown(place)}, on the way to it, belongs to uid {status.st_uid}", place)
        is_open = stat.S_ISDIR(status.st_mode) and not status.st_mode & stat.S_ISVTX
        if is_open and status.st_mode & strangers_bits(status, group=self._rules.group):
            raise UnsafePathError(f"others may write to {shown(place)}, on the way to it", place)

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


def make_folder(folder: int, name: bytes | str, mode: int = 0o700) -> None:
    """One that is there already may be anybody's: it is looked at when it is entered."""
    try:
        os.mkdir(name, mode, dir_fd=folder)
    except OSError as error:  # such as EROFS on a folder that is there
        if error.errno not in (errno.EEXIST, errno.EROFS, errno.EACCES, errno.ENOSPC):
            raise
        try:
            os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            raise error from None
