# SPDX-License-Identifier: Apache-2.0
"""Whatever ends an action before its end: everything is put back, the journal says so, and the error says how to go on. After
SIGKILL or a power cut nobody did: what such an action lowered may be low still, until `undo`."""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import NamedTuple, NoReturn, TypeVar

from zombiescope.errors import (
    ActionFailedError,
    ActionUndoneError,
    ObservationError,
    UsageError,
    ZombiescopeError,
    reason_of,
)
from zombiescope.execution.journal import ActionFolder, Entry, Write, read_entries, undo_line
from zombiescope.execution.moves import Hands
from zombiescope.execution.surprise import Attention, InterruptedActionError, SurpriseError
from zombiescope.execution.undo import is_in_the_middle, undo_all
from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.names import unshown
from zombiescope.host.removal import Found, found_of
from zombiescope.host.safe_open import open_regular
from zombiescope.host.safe_paths import held_open
from zombiescope.remedies.receipts import Taken

_BARE = Found("file", b"", 0o600)


class KeptCopy(NamedTuple):
    """A deleted file of which a copy is in the state folder."""

    seq: int
    path: str
    """Where it was, made printable."""
    copy: str
    was: Found
    """Its owner, mode, attributes and time, without its content."""


def kept_copies(entries: Iterable[Entry], folder: str) -> list[KeptCopy]:
    """Those that nobody has put back yet, in the order in which they went."""
    every = list(entries)
    back = {str(path) for entry in every if entry["entry"] == "restored" for path in entry.get("files", ())}
    found = []
    for entry in every:
        if entry["entry"] != "write" or entry["do"] != Write.DELETE_FILES:
            continue
        known = entry.get("was") or {}
        for path, copy in (entry.get("kept") or {}).items():
            if path not in back:
                place = os.path.join(folder, "kept", os.path.basename(str(copy)))
                found.append(KeptCopy(entry["seq"], path, place, found_of(known[path]) if path in known else _BARE))
    return found


def restore_all(hands: Hands, hierarchy: Hierarchy | None) -> list[Taken]:
    """One line a file. What is there already with the same content is nothing to do."""
    journal = hands.journal
    if kept := kept_copies(journal.entries(), journal.folder):
        journal.add("restore", files=[each.path for each in kept])
    home = hierarchy.place(b"/", b"cgroup.procs") if hierarchy and not hierarchy.partial_view else None
    taken = [Taken(each.seq, f"restore {each.path}", *_put_back(hands, each, home)) for each in kept]
    back = [each.path for each, done in zip(kept, taken, strict=True) if done.outcome != "not-restored"]
    if back:
        with suppress(OSError):  # doing it twice changes nothing more
            journal.add("restored", files=back)
    return taken


def _put_back(hands: Hands, kept: KeptCopy, home: bytes | None) -> tuple[str, str]:
    path = unshown(kept.path)
    try:
        copy, _ = open_regular(kept.copy)
    except OSError as error:
        return "not-restored", f"its copy {kept.copy} cannot be read: {error.strerror or error}"
    with held_open(copy):
        try:
            hands.writer.restore_file(path, copy, kept.was, home)
        except FileExistsError:
            return _already_there(hands, path, copy)
        except OSError as error:
            return "not-restored", f"{reason_of(error)}; its copy is {kept.copy}"
    return "restored", ""


def _already_there(hands: Hands, path: bytes, copy: int) -> tuple[str, str]:
    with suppress(OSError):
        there = hands.writer.look(path)
        if there.kind == "file" and there.content == os.pread(copy, os.fstat(copy).st_size, 0):
            return "nothing-to-do", "it is there"
    return "not-restored", "something else has that name now"


_Result = TypeVar("_Result")


class WayBack(NamedTuple):
    hands: Hands
    attention: Attention
    has_systemd: bool

    def guard(self, work: Callable[[], _Result]) -> _Result:
        """Raises ActionUndoneError or ActionFailedError for whatever ends the work before its end."""
        try:
            try:
                return work()
            except BaseException as error:  # noqa: BLE001 (a bug is raised again)
                self.take_all_back(error)
        except InterruptedActionError as late:  # heard before the way back began: it is raised only once
            self.take_all_back(late)

    def take_all_back(self, error: BaseException) -> NoReturn:
        """Ends with an error either way: 4 when everything is as it was, 5 when not. A bug stays a bug."""
        self.attention.restoring()
        surprise = self._surprise(error)
        with suppress(OSError):
            self.hands.journal.add("surprise", what=surprise.what, why=surprise.why, signal=self.attention.heard)
        left = self._undo()
        name = self.hands.journal.name
        undo = undo_line(self.hands.journal.folder)
        if left:
            why = f"{surprise.why}; action {name}, not put back: {left}"
            raise ActionFailedError(surprise.what, why, undo) from error
        if not isinstance(error, (SurpriseError, ZombiescopeError, OSError)):
            error.add_note(f"{type(error).__name__}: {error}; what action {name} had changed was put back")
            raise error
        why = f"{surprise.why}; what action {name} had changed was put back"
        hint = surprise.hint or f"zombiescope apply, to begin anew ({undo} finds nothing left)"
        raise ActionUndoneError(surprise.what, why, hint) from error

    def _surprise(self, error: BaseException) -> SurpriseError:
        """A signal also makes what is under way fail."""
        if self.attention.heard and not isinstance(error, InterruptedActionError):
            return InterruptedActionError(f"interrupted by {self.attention.heard}", "a signal asked it to end")
        match error:
            case SurpriseError():
                return error
            case ZombiescopeError():
                return SurpriseError(error.what, error.why, error.hint)
            case _:
                return SurpriseError("stopped in the middle", f"{type(error).__name__}: {error}")

    def _undo(self) -> str:
        """What is not as it was; empty when all is."""
        try:
            taken = undo_all(self.hands, has_systemd=self.has_systemd)
        except (SurpriseError, OSError) as error:
            return str(error) or "the journal cannot be read"
        return "; ".join(f"{each.what}: {each.why}" for each in taken if each.outcome == "not-restored" or each.is_lost)


_LOOKED_AT = 20
"""Of the newest: an action of long ago was told many times."""


def ended_in_the_middle(state: str, boot_id: str | None) -> list[str]:
    """Their names, newest first. What cannot be read is not ours to tell."""
    actions = ActionFolder(state)
    found = []
    with suppress(OSError, ObservationError):
        for name in reversed(actions.names()[-_LOOKED_AT:]):
            with suppress(OSError, UsageError, KeyError):
                if is_in_the_middle(read_entries(actions.folder(name)), boot_id):
                    found.append(name)
    return found


def is_one_at_work(state: str) -> bool:
    """Somebody holds the lock; asked without taking it, or whoever wants it would be sent away."""
    try:
        inode = os.stat(os.path.join(ActionFolder(state).place, "lock")).st_ino
        with open("/proc/locks", encoding="ascii", errors="replace") as locks:  # noqa: PTH123
            return any("FLOCK" in line and f":{inode} " in line for line in locks)
    except OSError:
        return False


def refuse_in_the_middle(state: str, boot_id: str | None) -> None:
    """What an unfinished action lowered would be taken for what was there before."""
    if names := ended_in_the_middle(state, boot_id):
        raise ActionUndoneError(
            "an earlier action ended in the middle",
            f"{', '.join(names)}: what it changed is neither finished nor put back",
            f"nothing was changed; first: {undo_line(ActionFolder(state).folder(names[0]))}",
        )
