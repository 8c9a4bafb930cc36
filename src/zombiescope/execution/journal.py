# SPDX-License-Identifier: Apache-2.0
"""The journal of an action: one JSON object a line, written and synced before each change it speaks of.

`STATE/actions/ID/journal.jsonl`, version 1: `begin`, `step`, `write` (what will be changed, and what was there before), `done`,
`step-end`, `end`, `surprise`, `undo`, `undone`, `undo-end`, `restore`, `restored`. A line cut short by a kill is the last one and
announces nothing that was done.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from shlex import quote
from typing import Any

from zombiescope.errors import KEPT_BY_NEWER, ActionUndoneError, ObservationError, UsageError, unknown_format
from zombiescope.execution.journal_lines import Write, checked, is_ours
from zombiescope.host.own_folder import STATE, own_folder
from zombiescope.host.safe_paths import UnsafePathError
from zombiescope.host.whole_file import sync_folder

USUAL_STATE = "/var/lib/zombiescope"
VERSION = 1
FILE = "journal.jsonl"
_MOST_BYTES = 64 << 20
"""A thousand times the longest one seen."""
_AS_ROOT = "run the same command as root: sudo zombiescope ..."
Entry = dict[str, Any]
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Journal:
    def __init__(self, folder: str, now: Callable[[], float], fault: Callable[[str], None] = lambda _: None) -> None:
        self.folder = folder
        self.name = os.path.basename(folder)
        self._now, self._fault = now, fault
        with own_folder(os.path.join(folder, "kept"), STATE, make=True):
            path = os.path.join(folder, FILE)
            self._handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        size = os.fstat(self._handle).st_size
        if size and os.pread(self._handle, 1, size - 1) != b"\n":
            os.write(self._handle, b"\n")
        sync_folder(folder)
        sync_folder(os.path.dirname(folder))
        self._next = 1 + max((int(entry["seq"]) for entry in self.entries() if entry["entry"] == "write"), default=0)

    def add(self, entry: str, **facts: Any) -> None:
        line = json.dumps({"v": VERSION, "entry": entry, "at": round(self._now(), 3), **facts}) + "\n"
        data = line.encode()
        written = os.write(self._handle, data)
        if written != len(data):
            raise OSError(28, "the journal could not be written whole")
        os.fsync(self._handle)
        self._fault(f"journal:{entry}")

    def intend(self, step: int, do: Write, **facts: Any) -> int:
        number = self._next
        self._next += 1
        self.add("write", seq=number, step=step, do=do, **facts)
        return number

    def done(self, number: int, **facts: Any) -> None:
        """`facts`: what is there now, so that `undo` can tell ours from what somebody made of it since."""
        self.add("done", seq=number, **facts)

    def keep(self, name: str, content: bytes) -> str:
        """A copy of what is about to go: whole, synced and read back; where it is. Raises OSError and leaves nothing half."""
        path = os.path.join(self.folder, "kept", name)
        handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            _write_whole(handle, content)
        except OSError:
            with suppress(OSError):
                os.unlink(path)
            raise
        finally:
            os.close(handle)
        return path

    def kept_all(self) -> None:
        """The names of the copies are on the disk, too."""
        sync_folder(os.path.join(self.folder, "kept"))

    def entries(self) -> list[Entry]:
        return read_entries(self.folder)

    def close(self) -> None:
        os.close(self._handle)


def read_entries(folder: str) -> list[Entry]:
    """As far as it can be read; raises OSError where it is not there."""
    found = []
    formats = set()
    with open(os.open(os.path.join(folder, FILE), _READ), "rb") as file:  # noqa: PTH123
        for line in file.read(_MOST_BYTES).split(b"\n"):
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(entry, dict):
                # Also of lines that are not ours: a later version may write others.
                formats |= {entry["v"]} if isinstance(entry.get("v"), int) else set()
                found += [entry] if is_ours(entry) else []
    formats |= {entry.get("v") for entry in found}
    if unknown := formats - {VERSION}:
        why = unknown_format(f"version {max(map(str, unknown))}", f"version {VERSION}")
        raise UsageError(f"cannot read the journal in {folder}", why, KEPT_BY_NEWER)
    return checked(found)


def undo_line(folder: str) -> str:
    """What to type to take the action of a folder back."""
    state, _, name = folder.rpartition("/actions/")
    return f"zombiescope undo {name} --yes" + ("" if state == USUAL_STATE else f" --state {quote(state)}")


def verify_line(folder: str) -> str:
    """What to type to see whether it holds."""
    return undo_line(folder).replace("undo", "verify", 1).replace(" --yes", "", 1)


def restore_line(folder: str) -> str:
    """What to type to put back the files that it deleted and of which copies were kept."""
    return undo_line(folder).replace(" --yes", " --restore --yes", 1)


def cannot_read(what: str, error: OSError) -> ObservationError:
    """Journals are root's: whoever is not gets a hint."""
    why = (error.strerror or str(error)).lower()
    hint = _AS_ROOT if _is_denied(error) else "give another folder with --state DIR"
    return ObservationError(f"cannot read the journals in {what}", why, hint)


def _is_denied(error: OSError) -> bool:
    return isinstance(error, PermissionError) and not isinstance(error, UnsafePathError)


class ActionFolder:
    """All actions of a state folder. `locked` lets one command at a time work on it."""

    def __init__(self, state: str) -> None:
        self.place = os.path.join(state, "actions")

    def names(self) -> list[str]:
        """Oldest first. Journals that somebody else could have written are not read: `undo` would do as they say."""
        try:
            with own_folder(self.place, STATE):
                names = os.listdir(self.place)
        except FileNotFoundError:
            return []
        except UnsafePathError as error:
            hint = "give --state DIR that only you can write to"
            raise UsageError(f"cannot trust the journals in {self.place}", error.strerror or "", hint) from error
        except OSError as error:
            raise cannot_read(self.place, error) from error
        return sorted(name for name in names if os.path.exists(os.path.join(self.place, name, FILE)))

    def folder(self, name: str) -> str:
        return os.path.join(self.place, name)

    @contextmanager
    def locked(self) -> Iterator[None]:
        handle = self._lock()
        try:
            yield
        finally:
            os.close(handle)

    def _lock(self) -> int:
        try:
            with own_folder(self.place, STATE, make=True):
                how = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
                handle = os.open(os.path.join(self.place, "lock"), how, 0o600)
        except OSError as error:
            raise ActionUndoneError(
                f"cannot keep a journal in {self.place}",
                (error.strerror or "").lower(),
                f"nothing was changed; {_AS_ROOT if _is_denied(error) else '--state DIR'}",
            ) from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            who = os.pread(handle, 20, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(handle)
            raise ActionUndoneError(
                "another apply or undo is at work",
                f"process {who} holds {self.place}/lock",
                "nothing was changed; wait for it",
            ) from error
        with suppress(OSError):  # a courtesy to whoever comes second
            os.ftruncate(handle, 0)
            os.pwrite(handle, str(os.getpid()).encode(), 0)
        return handle

    def steps_done_since(self, moment: float) -> Iterator[str]:
        """Names of steps done and not undone, for the circuit breaker."""
        for name in self.names():
            try:
                entries = read_entries(self.folder(name))
            except OSError:
                continue
            if any(entry["entry"] == "undo-end" for entry in entries):
                continue
            for entry in entries:
                if entry["entry"] == "step-end" and entry["at"] >= moment and entry.get("status") == "done":
                    yield str(entry["name"])


def _write_whole(handle: int, content: bytes) -> None:
    written = 0
    while written < len(content):  # a disk that fills up takes a part first
        written += os.write(handle, content[written:])
    os.fsync(handle)
    back = b""
    while part := os.pread(handle, 1 << 20, len(back)):
        back += part
    if back != content:
        raise OSError(errno.EIO, "the copy reads back differently")
