# SPDX-License-Identifier: Apache-2.0
"""The very files that a step is about, held folder by folder and batch by batch so that nobody alive has them; what is left alone
is counted by reason."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from zombiescope.execution.journal import Entry, Write
from zombiescope.execution.moves import Hands
from zombiescope.execution.surprise import SurpriseError, refused
from zombiescope.facts.names import shown, unshown
from zombiescope.facts.zombies import HeldBy
from zombiescope.host.files import FileKey, InUse, files_in_use, key_of
from zombiescope.host.removal import Found, Held, Identity, InUseError, content_of, read_attributes
from zombiescope.host.safe_paths import UnsafePathError
from zombiescope.remedies.plan import KEPT_BYTES, KEPT_BYTES_IN_ALL, DeleteFiles, NamedFile

Batches = Callable[[Sequence[NamedFile]], Iterator[Sequence[NamedFile]]]
_GONE = "gone or another of the same name"
_NOT_KNOWN = "may be in use: not every process could be looked into"


class Grip:
    def __init__(self, hands: Hands, batches: Batches) -> None:
        self._hands, self._batches = hands, batches
        self._left = Counter[str]()

    def batches_of(self, files: Sequence[NamedFile]) -> Iterator[tuple[int, bytes, Sequence[NamedFile]]]:
        """Each with its folder, as a descriptor and by its path."""
        for folder in dict.fromkeys(os.path.dirname(file.path) for file in files):
            inside = [file for file in files if os.path.dirname(file.path) == folder]
            with ExitStack() as stack:
                try:
                    place = stack.enter_context(self._hands.writer.folder(folder))
                except OSError as error:
                    self.leave(error, len(inside))
                    continue
                for batch in self._batches(inside):
                    yield place, folder, batch

    def leave(self, why: OSError | str, count: int = 1) -> None:
        self._left[why if isinstance(why, str) else _why(why)] += count

    def left_alone(self, wanted: int) -> list[str]:
        if not self._left:
            return []
        reasons = "; ".join(f"{count:,} {why}" for why, count in self._left.most_common())
        return [f"{self._left.total():,} of {wanted:,} left alone: {reasons}"]

    def hold_all(self, stack: ExitStack, place: int, batch: Sequence[NamedFile]) -> list[Held]:
        found, busy = [], []
        for file in batch:
            name = os.path.basename(file.path)
            wanted = Identity(file.inode or 0, file.device)  # one that was never seen is none
            try:
                found.append(stack.enter_context(self._hands.writer.hold(place, name, wanted)))
            except InUseError:
                busy.append(name)
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    raise refused(f"cannot open {shown(file.path)}", error) from error
                self.leave(error)
        self._say_who(place, busy)
        return found

    def _say_who(self, place: int, busy: Sequence[bytes]) -> None:
        """One look through /proc for all of them; whom it does not find has them all the same."""
        if not busy:
            return
        keys = dict.fromkeys(busy, ("", 0))
        for name in busy:
            with suppress(OSError):
                keys[name] = key_of(os.stat(name, dir_fd=place, follow_symlinks=False))
        holders: dict[FileKey, HeldBy] = {}
        with suppress(OSError):
            holders = files_in_use(keys.values()).holders
        for key in keys.values():
            self._left[f"in use by {holders[key].said}" if key in holders else "in use"] += 1

    def alone(self, found: list[Held]) -> list[Held]:
        """Where a file system gives no leases, one look through /proc has to do; what it could not see is no proof."""
        unsure = [file for file in found if not file.is_leased]
        if not unsure:
            return found
        try:
            seen = files_in_use([key_of(file.status) for file in unsure])
        except OSError:
            seen = InUse({}, 1)
        for file in unsure:
            holder = seen.holders.get(key_of(file.status))
            if holder or seen.unread:
                self._left[f"in use by {holder.said}" if holder else _NOT_KNOWN] += 1
                found = [other for other in found if other is not file]
        return found


def _why(error: OSError) -> str:
    if isinstance(error, InUseError):
        return "in use"
    return error.strerror or "unsafe" if isinstance(error, UnsafePathError) else _GONE


class Deletion:
    def __init__(self, hands: Hands, batches: Batches) -> None:
        self._hands, self._grip = hands, Grip(hands, batches)
        self._room, self._copies, self._lost = KEPT_BYTES_IN_ALL, 0, 0

    def run(self, change: DeleteFiles) -> str:
        for place, folder, batch in self._grip.batches_of(change.files):
            self._one_batch(place, folder, batch)
        return self._said(len(change.files))

    def _one_batch(self, place: int, folder: bytes, batch: Sequence[NamedFile]) -> None:
        with ExitStack() as stack:
            found = self._grip.alone(self._grip.hold_all(stack, place, batch))
            if not found:
                return
            kept = self._keep(folder, found)
            aside = b".zombiescope-" + secrets.token_hex(8).encode()
            names = [shown(folder + b"/" + file.name) for file in found]
            was = {path: _was(file) for path, file in zip(names, found, strict=True) if path in kept}
            number = self._hands.journal.intend(
                self._hands.step,
                Write.DELETE_FILES,
                files=names,
                kept=kept,
                was=was,
                aside=shown(folder + b"/" + aside),
            )
            gone = self._delete(place, aside, found)
            self._lost += sum(names[each] not in kept for each in gone)
            self._hands.journal.done(number)

    def _keep(self, folder: bytes, found: Sequence[Held]) -> dict[str, str]:
        kept: dict[str, str] = {}
        for file in found:
            size = file.status.st_size
            if size > min(KEPT_BYTES, self._room):
                continue
            path = shown(folder + b"/" + file.name)
            try:
                content = content_of(file, KEPT_BYTES)
                kept[path] = self._hands.journal.keep(f"{self._hands.step:02}-{self._copies:06}", content)
            except OSError as error:
                surprise = refused(f"cannot keep a copy of {path}", error)
                raise SurpriseError(
                    surprise.what, f"{surprise.why}; it stays where it is", "--state DIR on a disk with room"
                ) from error
            self._copies += 1
            self._room -= len(content)
        if kept:
            self._hands.journal.kept_all()
        return kept

    def _delete(self, place: int, aside: bytes, found: Sequence[Held]) -> list[int]:
        """The numbers of those that went."""
        writer, gone = self._hands.writer, []
        try:
            writer.make_aside(place, aside)
        except OSError as error:
            raise refused("cannot make a folder of our own beside the files", error) from error
        try:
            for number, file in enumerate(found):
                try:
                    writer.set_aside(place, aside, number, file)
                except OSError as error:
                    self._grip.leave(error)
                    continue
                try:
                    writer.delete(place, aside, number, file)
                except InUseError as error:
                    self._grip.leave(error)
                else:
                    gone.append(number)
        finally:
            with suppress(OSError):  # undo does it
                writer.remove_aside(place, aside)
        return gone

    def _said(self, wanted: int) -> str:
        said = self._grip.left_alone(wanted)
        if self._lost:
            said.append(f"of {self._lost:,} no copy was kept: too large, or too many")
        return ". ".join(said)


def _was(file: Held) -> dict[str, Any]:
    """What a copy does not tell: owner, mode, attributes and time."""
    status, xattrs = file.status, read_attributes(file.descriptor)
    mode = stat.S_IMODE(status.st_mode)
    plain = Found("file", b"", mode, status.st_uid, status.st_gid, status.st_mtime_ns, xattrs).as_plain()
    del plain["content"]
    return plain


def put_back_aside(hands: Hands, entry: Entry) -> None:
    """What was set aside and not deleted when something ended us. Raises OSError."""
    if "aside" not in entry:
        return
    folder, _, aside = unshown(entry["aside"]).rpartition(b"/")
    try:
        with hands.writer.folder(folder) as place:
            numbers = hands.writer.names_aside(place, aside)
            for number in (number for number in numbers if number < len(entry["files"])):
                name = os.path.basename(unshown(entry["files"][number]))
                hands.writer.put_back(place, aside, number, name)
            with suppress(FileNotFoundError):
                hands.writer.remove_aside(place, aside)
    except FileNotFoundError:
        return  # the whole folder is gone
