# SPDX-License-Identifier: Apache-2.0
"""The very files that a step is about, held folder by folder and batch by batch so that nobody alive has them; what is left alone
is counted by reason. Deleted, each with a whole copy as far as there is room.

Or rewritten, by consent, each by a whole copy charged to the root cgroup. A few at a time: held under a lease, copied into files
without a name and compared, journalled with the inodes of both, named in a folder of ours, exchanged, and the old one deleted. At
any point the name leads to one of the two, whole.
"""

import errno
import os
import secrets
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, NamedTuple

from zombiescope.errors import reason_of
from zombiescope.execution.journal import Entry, Write
from zombiescope.execution.moves import Hands
from zombiescope.execution.surprise import SurpriseError, refused, refusing
from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.names import shown, unshown
from zombiescope.facts.zombies import HeldBy
from zombiescope.host.files import FileKey, InUse, files_in_use, key_of
from zombiescope.host.removal import Found, Held, Identity, InUseError, content_of, held, names_aside, read_attributes
from zombiescope.host.safe_paths import UnsafePathError
from zombiescope.remedies.plan import KEPT_BYTES, KEPT_BYTES_IN_ALL, DeleteFiles, NamedFile, RewriteFiles

Batches = Callable[[Sequence[NamedFile]], Iterator[Sequence[NamedFile]]]

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
                found.append(stack.enter_context(held(place, name, wanted)))
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


@contextmanager
def _folder_aside(hands: Hands, place: int, aside: bytes) -> Iterator[None]:
    """A folder of our own beside the files, gone afterwards when nothing is left in it."""
    with refusing("cannot make a folder of our own beside the files"):
        hands.writer.make_aside(place, aside)
    try:
        yield
    finally:
        with suppress(OSError):  # undo does it
            hands.writer.remove_aside(place, aside)


def _why(error: OSError) -> str:
    if isinstance(error, InUseError):
        return "in use"
    return error.strerror or "unsafe" if isinstance(error, UnsafePathError) else "gone or another of the same name"


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
            if not (found := self._grip.alone(self._grip.hold_all(stack, place, batch))):
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
            self._lost += sum(names[each] not in kept for each in self._delete(place, aside, found))
            self._hands.journal.done(number)

    def _keep(self, folder: bytes, found: Sequence[Held]) -> dict[str, str]:
        kept: dict[str, str] = {}
        for file in found:
            if file.status.st_size > min(KEPT_BYTES, self._room):
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
        with _folder_aside(self._hands, place, aside):
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
        return gone

    def _said(self, wanted: int) -> str:
        said = self._grip.left_alone(wanted)
        if self._lost:
            said.append(f"of {self._lost:,} no copy was kept: too large, or too many")
        return ". ".join(said)


def _was(file: Held) -> dict[str, Any]:
    """What a copy does not tell: owner, mode, attributes and time."""
    status, xattrs = file.status, read_attributes(file.descriptor)
    owner, at = (status.st_uid, status.st_gid), status.st_mtime_ns
    return Found("file", b"", stat.S_IMODE(status.st_mode), *owner, at, xattrs).as_plain(with_content=False)


def put_back_aside(hands: Hands, entry: Entry) -> None:
    """What was set aside and not deleted when something ended us. Raises OSError."""
    if "aside" in entry:
        _clear_aside(hands, entry, hands.writer.put_back)


def _clear_aside(hands: Hands, entry: Entry, settle: Callable[[int, bytes, int, bytes], None]) -> None:
    """Each file of the entry that has something in our folder beside it is settled by number and name; then that folder goes."""
    folder, _, aside = unshown(entry["aside"]).rpartition(b"/")
    with suppress(FileNotFoundError), hands.writer.folder(folder) as place:  # or the whole folder is gone
        for number in (each for each in names_aside(place, aside) if each < len(entry["files"])):
            settle(place, aside, number, os.path.basename(unshown(entry["files"][number])))
        with suppress(FileNotFoundError):
            hands.writer.remove_aside(place, aside)


_TOGETHER, _BYTES_TOGETHER = 64, 64 << 20
_SECONDS = 600.0
_ROOM = 2
"""Available memory must be this many times what is copied: nobody else is to wait for it."""


class Pair(NamedTuple):
    file: Held
    copy: int
    """A descriptor."""


class Rewriting:
    def __init__(self, hands: Hands, batches: Batches, hierarchy: Hierarchy | None) -> None:
        self._hands, self._grip, self._hierarchy = hands, Grip(hands, batches), hierarchy

    def run(self, change: RewriteFiles) -> str:
        if problem := self._no_home():
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
            return f"the copies cannot be charged to the root cgroup: {reason_of(error)}"
        return ""

    @property
    def _home(self) -> bytes:
        assert self._hierarchy is not None
        return self._hierarchy.place(b"/", b"cgroup.procs")

    def _may_be_rewritten(self, file: Held) -> bool:
        if file.status.st_nlink == 1 and file.is_leased:
            return True
        why = "may be in use: the kernel gives no lease on it"
        self._grip.leave(why if file.status.st_nlink == 1 else "with more than one name: a copy would part them")
        return False

    def _has_room(self, place: int, group: Sequence[Held]) -> bool:
        if why := self._why_no_room(place, sum(map(_allocated, group))):
            self._grip.leave(why, len(group))
        return not why

    def _why_no_room(self, place: int, wanted: int) -> str:
        room = os.fstatvfs(place)
        if room.f_blocks and room.f_bavail * room.f_frsize < wanted:
            return "without room for a copy on its file system"
        if (available := self._available()) is None:
            return "large, and how much memory is available cannot be told" if wanted > _BYTES_TOGETHER else ""
        return "without room for a copy in memory" if available < _ROOM * wanted else ""

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
        with _folder_aside(self._hands, place, aside):
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
    return file.status.st_blocks * 512


def clear_copies(hands: Hands, entry: Entry) -> None:
    """What was beside the files when something ended us. Raises OSError."""

    def clear(place: int, aside: bytes, number: int, name: bytes) -> None:
        old, copy = entry["inodes"][number]
        hands.writer.clear_copy(place, aside, number, name, (old, copy))

    _clear_aside(hands, entry, clear)
