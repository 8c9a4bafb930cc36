# SPDX-License-Identifier: Apache-2.0
"""The very files that a step is about, held folder by folder and batch by batch so that nobody alive has them; what is left alone
is counted by reason."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress

from zombiescope.execution.moves import Hands
from zombiescope.execution.surprise import refused
from zombiescope.facts.names import shown
from zombiescope.facts.zombies import HeldBy
from zombiescope.host.files_in_use import FileKey, InUse, files_in_use, key_of
from zombiescope.host.removal import Held, Identity, InUseError
from zombiescope.host.safe_paths import UnsafePathError
from zombiescope.remedies.plan import NamedFile

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
