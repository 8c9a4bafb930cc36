# SPDX-License-Identifier: Apache-2.0
"""Rewrites files in memory by consent: the very ones, nobody's that is alive, each by a whole copy charged to the root cgroup.

A few at a time: held under a lease, copied into files without a name and compared, journalled with the inodes of both, named in a
folder of ours, exchanged, and the old one deleted. At any point the name leads to one of the two, whole.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import NamedTuple

from zombiescope.execution.grip import Batches, Grip
from zombiescope.execution.journal import Entry, Write
from zombiescope.execution.moves import Hands
from zombiescope.execution.surprise import SurpriseError, refused
from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.names import shown, unshown
from zombiescope.host.removal import Held
from zombiescope.remedies.plan import RewriteFiles

_TOGETHER, _BYTES_TOGETHER = 64, 64 << 20
_SECONDS = 600.0
_ROOM = 2
"""Available memory must be this many times what is copied: nobody else is to wait for it."""
_BLOCK = 512


class Pair(NamedTuple):
    file: Held
    copy: int
    """A descriptor."""


class Rewriting:
    def __init__(self, hands: Hands, batches: Batches, hierarchy: Hierarchy | None) -> None:
        self._hands, self._grip, self._hierarchy = hands, Grip(hands, batches), hierarchy

    def run(self, change: RewriteFiles) -> str:
        problem = self._no_home()
        if problem:
            return f"nothing was rewritten: {problem}"
        for place, folder, batch in self._grip.batches_of(change.files):
            with ExitStack() as stack:
                found = [file for file in self._grip.hold_all(stack, place, batch) if self._may_be_rewritten(file)]
                for group in _groups(found):
                    if self._has_room(place, group):
                        self._one_group(place, folder, group)
        return ". ".join(self._grip.left_alone(len(change.files)))

    def _no_home(self) -> str:
        """Copies charged to a cgroup that dies, such as that of a short-lived unit that runs us, would pin it in turn."""
        if self._hierarchy is None or self._hierarchy.partial_view:
            return "the root cgroup, to which the copies would be charged, cannot be seen from here"
        try:
            self._hands.writer.copy_in_child(self._home, (), _SECONDS)
        except OSError as error:
            return f"the copies cannot be charged to the root cgroup: {(error.strerror or str(error)).lower()}"
        return ""

    @property
    def _home(self) -> bytes:
        assert self._hierarchy is not None
        return self._hierarchy.place(b"/", b"cgroup.procs")

    def _may_be_rewritten(self, file: Held) -> bool:
        if file.status.st_nlink != 1:
            self._grip.leave("with more than one name: a copy would part them")
        elif not file.is_leased:
            self._grip.leave("may be in use: the kernel gives no lease on it")
        else:
            return True
        return False

    def _has_room(self, place: int, group: Sequence[Held]) -> bool:
        wanted = sum(_allocated(file) for file in group)
        room = os.fstatvfs(place)
        if room.f_blocks and room.f_bavail * room.f_frsize < wanted:
            self._grip.leave("without room for a copy on its file system", len(group))
            return False
        available = self._available()
        if available is None and wanted > _BYTES_TOGETHER:
            self._grip.leave("large, and how much memory is available cannot be told", len(group))
            return False
        if available is not None and available < _ROOM * wanted:
            self._grip.leave("without room for a copy in memory", len(group))
            return False
        return True

    def _available(self) -> int | None:
        with suppress(OSError, ValueError, IndexError):
            for line in self._hands.writer.read_value(b"/proc/meminfo").split(b"\n"):
                if line.startswith(b"MemAvailable:"):
                    return int(line.split()[1]) << 10
        return None

    def _one_group(self, place: int, folder: bytes, group: Sequence[Held]) -> None:
        with ExitStack() as stack:
            pairs = self._copied(stack, place, folder, group)
            aside = b".zombiescope-" + secrets.token_hex(8).encode()
            number = self._hands.journal.intend(
                self._hands.step,
                Write.REWRITE_FILES,
                files=[shown(folder + b"/" + file.name) for file, _ in pairs],
                inodes=[[file.status.st_ino, os.fstat(copy).st_ino] for file, copy in pairs],
                aside=shown(folder + b"/" + aside),
            )
            self._exchange(place, aside, pairs)
            self._hands.journal.done(number)

    def _copied(self, stack: ExitStack, place: int, folder: bytes, group: Sequence[Held]) -> list[Pair]:
        pairs = []
        try:
            for file in group:
                copy = self._hands.writer.nameless(place)
                stack.callback(os.close, copy)
                pairs.append(Pair(file, copy))
            self._hands.writer.copy_in_child(self._home, pairs, _SECONDS)
        except OSError as error:
            surprise = refused(f"cannot copy files in {shown(folder)}", error)
            raise SurpriseError(surprise.what, f"{surprise.why}; they stay as they are") from error
        return pairs

    def _exchange(self, place: int, aside: bytes, pairs: Sequence[Pair]) -> None:
        writer = self._hands.writer
        try:
            writer.make_aside(place, aside)
        except OSError as error:
            raise refused("cannot make a folder of our own beside the files", error) from error
        try:
            for number, (file, copy) in enumerate(pairs):
                pair = (file.status.st_ino, os.fstat(copy).st_ino)
                try:
                    writer.name_copy(place, aside, number, copy)
                    writer.trade_places(place, aside, number, file)
                except OSError as error:
                    if error.errno in (errno.ENOSPC, errno.ENOSYS, errno.EINVAL):
                        raise refused(f"cannot exchange {shown(file.name)} for its copy", error) from error
                    self._grip.leave(error)
                writer.clear_copy(place, aside, number, file.name, pair)
        finally:
            with suppress(OSError):  # undo does it
                writer.remove_aside(place, aside)


def _groups(files: Sequence[Held]) -> Iterator[list[Held]]:
    """So few that a copy of all of them is small, or one."""
    group: list[Held] = []
    size = 0
    for file in files:
        if group and (len(group) == _TOGETHER or size + _allocated(file) > _BYTES_TOGETHER):
            yield group
            group, size = [], 0
        group.append(file)
        size += _allocated(file)
    if group:
        yield group


def _allocated(file: Held) -> int:
    return file.status.st_blocks * _BLOCK


def clear_copies(hands: Hands, entry: Entry) -> None:
    """What was beside the files when something ended us. Raises OSError."""
    folder, _, aside = unshown(entry["aside"]).rpartition(b"/")
    try:
        with hands.writer.folder(folder) as place:
            for number in (each for each in hands.writer.names_aside(place, aside) if each < len(entry["files"])):
                old, copy = entry["inodes"][number]
                name = os.path.basename(unshown(entry["files"][number]))
                hands.writer.clear_copy(place, aside, number, name, (old, copy))
            with suppress(FileNotFoundError):
                hands.writer.remove_aside(place, aside)
    except FileNotFoundError:
        return  # the whole folder is gone
