# SPDX-License-Identifier: Apache-2.0
"""Deletes files in memory by consent: the very ones, nobody's that is alive, and small ones only with a whole copy kept.

Folder by folder and batch by batch: held open under a lease, copied, journalled, set aside, looked at, deleted. What changed since
the plan or is in use stays and is said; a copy that cannot be kept stops the step with its files in place.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress

from zombiescope.execution.journal import Entry
from zombiescope.execution.moves import Hands
from zombiescope.execution.surprise import SurpriseError, refused
from zombiescope.facts.names import shown, unshown
from zombiescope.host.files_in_use import FileKey, InUse, files_in_use, key_of
from zombiescope.host.removal import Held, Identity, InUseError, content_of
from zombiescope.host.safe_paths import UnsafePathError
from zombiescope.remedies.plan import KEPT_BYTES, KEPT_BYTES_IN_ALL, DeleteFiles, NamedFile

_Batches = Callable[[Sequence[NamedFile]], Iterator[Sequence[NamedFile]]]
_GONE = "gone or another of the same name"
_NOT_KNOWN = "may be in use: not every process could be looked into"


class Deletion:
    def __init__(self, hands: Hands, batches: _Batches) -> None:
        self._hands, self._batches = hands, batches
        self._left = Counter[str]()
        self._room, self._copies, self._lost = KEPT_BYTES_IN_ALL, 0, 0

    def run(self, change: DeleteFiles) -> str:
        for folder in dict.fromkeys(os.path.dirname(file.path) for file in change.files):
            files = [file for file in change.files if os.path.dirname(file.path) == folder]
            with ExitStack() as stack:
                try:
                    place = stack.enter_context(self._hands.writer.folder(folder))
                except OSError as error:
                    self._left[_why(error)] += len(files)
                    continue
                for batch in self._batches(files):
                    self._one_batch(place, folder, batch)
        return self._said(len(change.files))

    def _one_batch(self, place: int, folder: bytes, batch: Sequence[NamedFile]) -> None:
        with ExitStack() as stack:
            found = self._alone(self._hold_all(stack, place, batch))
            if not found:
                return
            kept = self._keep(folder, found)
            aside = b".zombiescope-" + secrets.token_hex(8).encode()
            names = [shown(folder + b"/" + file.name) for file in found]
            number = self._hands.journal.intend(
                self._hands.step, "delete_files", files=names, kept=kept, aside=shown(folder + b"/" + aside)
            )
            gone = self._delete(place, aside, found)
            self._lost += sum(names[each] not in kept for each in gone)
            self._hands.journal.done(number)

    def _hold_all(self, stack: ExitStack, place: int, batch: Sequence[NamedFile]) -> list[Held]:
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
                self._left[_why(error)] += 1
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
        holders: dict[FileKey, str] = {}
        with suppress(OSError):
            holders = files_in_use(keys.values()).holders
        for key in keys.values():
            self._left[f"in use by {holders[key]}" if key in holders else "in use"] += 1

    def _alone(self, found: list[Held]) -> list[Held]:
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
                self._left[f"in use by {holder}" if holder else _NOT_KNOWN] += 1
                found = [other for other in found if other is not file]
        return found

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
                    self._left[_why(error)] += 1
                    continue
                writer.delete(place, aside, number)
                gone.append(number)
        finally:
            with suppress(OSError):  # undo does it
                writer.remove_aside(place, aside)
        return gone

    def _said(self, wanted: int) -> str:
        said = []
        if self._left:
            reasons = "; ".join(f"{count:,} {why}" for why, count in self._left.most_common())
            said.append(f"{self._left.total():,} of {wanted:,} left alone: {reasons}")
        if self._lost:
            said.append(f"of {self._lost:,} no copy was kept: too large, or too many")
        return ". ".join(said)


def _why(error: OSError) -> str:
    if isinstance(error, InUseError):
        return "in use"
    return error.strerror or "unsafe" if isinstance(error, UnsafePathError) else _GONE


def put_back_aside(hands: Hands, entry: Entry) -> None:
    """What was set aside and not deleted when something ended us. Raises OSError."""
    if "aside" not in entry:
        return
    folder, _, aside = unshown(entry["aside"]).rpartition(b"/")
    try:
        with hands.writer.folder(folder) as place:
            numbers = hands.writer.names_aside(place, aside)
            for number in numbers:
                name = os.path.basename(unshown(entry["files"][number]))
                hands.writer.put_back(place, aside, number, name)
            with suppress(FileNotFoundError):
                hands.writer.remove_aside(place, aside)
    except FileNotFoundError:
        return  # the whole folder is gone
