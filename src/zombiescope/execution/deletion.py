# SPDX-License-Identifier: Apache-2.0
"""Deletes files in memory by consent: the very ones, nobody's that is alive, and small ones only with a whole copy kept.

Folder by folder and batch by batch: held open under a lease, copied, journalled, set aside, looked at, deleted. What changed since
the plan or is in use stays and is said; a copy that cannot be kept stops the step with its files in place.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any

from zombiescope.execution.grip import Batches, Grip
from zombiescope.execution.journal import Entry, Write
from zombiescope.execution.moves import Hands
from zombiescope.execution.surprise import SurpriseError, refused
from zombiescope.facts.names import shown, unshown
from zombiescope.host.found import Found
from zombiescope.host.removal import Held, InUseError, content_of, read_attributes
from zombiescope.remedies.plan import KEPT_BYTES, KEPT_BYTES_IN_ALL, DeleteFiles, NamedFile


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
