# SPDX-License-Identifier: Apache-2.0
"""The files of a machine that may not be this one, or may be hostile: a folder, an image archive, a raw image.

Links are resolved by us, inside the tree, as the machine itself would: none leads out of it. Only regular files are
ever opened. What is refused is kept with its reason, so that a report can say what it did not look at. Every folder on the way is
opened without following links, so a tree that changes under us cannot lead us out of it.
"""

import errno
import os
import re
import stat
from collections import deque
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, Protocol

from zombiescope.facts.zombies import HeldBy
from zombiescope.host.safe_open import open_regular
from zombiescope.host.safe_paths import BY_NUMBER, descriptor_of, parent_below

FileKey = tuple[str, int]
"""`major:minor` and inode."""


_MAPPED = re.compile(rb"(?m)^\S+ \S+ \S+ ([0-9a-f]+):([0-9a-f]+) ([0-9]+)")


class InUse(NamedTuple):
    holders: dict[FileKey, HeldBy]
    """One per file, for all must let go."""
    unread: int
    """Processes that could not be looked into, by rights and not because they ended."""


def files_in_use(wanted: Collection[FileKey], proc: bytes = b"/proc") -> InUse:
    """Raises OSError where there is no /proc."""
    missing, holders, unread = set(wanted), dict[FileKey, HeldBy](), 0
    for name in os.listdir(proc):
        if not name.isdigit() or int(name) == os.getpid() or not missing:
            continue
        process = proc + b"/" + name
        try:
            found = (_opened(process) | _mapped(process)) & missing
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        except OSError:
            unread += 1
            continue
        holders.update(dict.fromkeys(found, _who(process, name)))
        missing -= found
    return InUse(holders, unread)


def key_of(status: os.stat_result) -> FileKey:
    return f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}", status.st_ino


def _opened(process: bytes) -> set[FileKey]:
    found = set()
    for name in os.listdir(process + b"/fd"):
        with suppress(FileNotFoundError):  # closed meanwhile
            found.add(key_of(os.stat(process + b"/fd/" + name)))
    return found


def _mapped(process: bytes) -> set[FileKey]:
    found: set[FileKey] = set()
    with open(process + b"/maps", "rb") as file:
        while lines := file.readlines(1 << 20):  # whoever maps most may map 65,000 files with names of 4 KiB
            found |= keys_in_maps(b"".join(lines))
    return found


def keys_in_maps(maps: bytes) -> set[FileKey]:
    """Of /proc/PID/maps, which writes devices in hexadecimal."""
    return {(f"{int(major, 16)}:{int(minor, 16)}", int(inode)) for major, minor, inode in set(_MAPPED.findall(maps))}


def _who(process: bytes, name: bytes) -> HeldBy:
    try:
        with open(process + b"/comm", "rb") as file:
            return HeldBy(int(name), file.read().strip())
    except OSError:
        return HeldBy(int(name))


_LINKS_FOLLOWED = 40
READ_LIMIT_BYTES = 1 << 20
REFUSALS_KEPT = 1000


class Kind(Enum):
    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    OTHER = "device, pipe or socket"


@dataclass(frozen=True, slots=True)
class Entry:
    kind: Kind
    size: int = 0
    target: bytes = b""
    executable: bool = False
    modified_at: float | None = None
    """Seconds since the epoch; None where a tree does not keep it."""

    def leads_to(self, path: bytes) -> bytes:
        """Where a link at this path leads, by its own words."""
        return self.target if self.target.startswith(b"/") else path.rpartition(b"/")[0] + b"/" + self.target


@dataclass(frozen=True, slots=True)
class Refusal:
    path: bytes
    reason: str


class FileTree(Protocol):
    """Paths are absolute, without links in the leading folders: `Files` resolves them first."""

    def entry(self, path: bytes) -> Entry:
        """What is there, not following a link; raises OSError."""

    def names(self, path: bytes) -> list[bytes]:
        """What a folder holds; raises OSError."""

    def content(self, path: bytes, limit: int) -> bytes:
        """Up to `limit` bytes of a regular file; raises OSError."""


@dataclass(slots=True)
class Files:
    """A tree with its links resolved inside it."""

    tree: FileTree
    refusals: list[Refusal] = field(default_factory=list)
    _folders: dict[bytes, bytes] = field(default_factory=dict)

    def resolve(self, path: bytes, *, last: bool = True) -> bytes:
        """Where a path leads, following links (the last one too, if `last`); raises OSError."""
        head, _, name = path.rstrip(b"/").rpartition(b"/")
        if head not in self._folders:
            self._folders[head] = self._walk(b"", head, last=True)
        return self._walk(self._folders[head], name, last=last) or b"/"

    def _walk(self, place: bytes, path: bytes, *, last: bool) -> bytes:
        """Step by step from a place; a step up from the top stays at the top. Not `safe_paths.py`: an image has no descriptors."""
        pending, links = deque(path.split(b"/")), 0
        while pending:
            name = pending.popleft()
            if name == b"..":
                place = place.rpartition(b"/")[0]
            if name in (b"", b".", b".."):
                continue
            here = place + b"/" + name
            if not pending and not last:
                return here
            entry = self.tree.entry(here)
            if entry.kind is not Kind.LINK:
                place = here
                continue
            links += 1
            if links > _LINKS_FOLLOWED or not entry.target:
                code = errno.ELOOP if entry.target else errno.ENOENT
                raise OSError(code, os.strerror(code), path)
            if entry.target.startswith(b"/"):
                place = b""
            pending.extendleft(reversed(entry.target.split(b"/")))
        return place

    def entry(self, path: bytes) -> Entry | None:
        """What is at a path, not following the last link; None when there is nothing."""
        try:
            return self.tree.entry(self.resolve(path, last=False))
        except OSError:
            return None

    def exists(self, path: bytes) -> bool:
        try:
            self.tree.entry(self.resolve(path))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                self.refuse(path, error.strerror or "cannot be looked at")
            return False
        return True

    def list(self, path: bytes) -> list[bytes]:
        """What a folder holds, sorted; nothing when it is not there."""
        try:
            return sorted(self.tree.names(self.resolve(path)))
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                self.refuse(path, error.strerror or "cannot be listed")
            return []

    def read(self, path: bytes, limit: int = READ_LIMIT_BYTES) -> bytes | None:
        """A regular file's bytes; None when it is not there, and when it is refused (see `refusals`)."""
        try:
            where = self.resolve(path)
            entry = self.tree.entry(where)
            if entry.kind is Kind.FILE and entry.size <= limit:
                return self.tree.content(where, limit)
        except OSError as error:
            if error.errno != errno.ENOENT:
                self.refuse(path, error.strerror or "cannot be read")
            return None
        if entry.kind is Kind.FILE:
            self.refuse(path, f"{entry.size:,} bytes, more than {limit:,}: not read")
        elif entry.kind is not Kind.FOLDER:
            self.refuse(path, f"not a regular file ({entry.kind.value}): not opened")
        return None

    def refuse(self, path: bytes, reason: str) -> None:
        if (refusal := Refusal(path, reason)) not in self.refusals and len(self.refusals) < REFUSALS_KEPT:
            self.refusals.append(refusal)


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
        return Entry(kind_of(status.st_mode), status.st_size, b"", bool(status.st_mode & 0o111), status.st_mtime)

    def names(self, path: bytes) -> list[bytes]:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        with (
            parent_below(self._root, path, BY_NUMBER) as (parent, name),
            descriptor_of(name, flags, dir_fd=parent) as folder,
        ):
            return [os.fsencode(found) for found in os.listdir(folder)]

    def content(self, path: bytes, limit: int) -> bytes:
        with (
            parent_below(self._root, path, BY_NUMBER) as (parent, name),
            open(open_regular(name, dir_fd=parent)[0], "rb", buffering=0) as file,
        ):
            data = file.read(limit + 1)
        if len(data) > limit:
            raise OSError(errno.EFBIG, f"more than {limit:,} bytes: not read", path)
        return data


_KINDS = {stat.S_IFREG: Kind.FILE, stat.S_IFDIR: Kind.FOLDER, stat.S_IFLNK: Kind.LINK}


def kind_of(mode: int) -> Kind:
    return _KINDS.get(stat.S_IFMT(mode), Kind.OTHER)
