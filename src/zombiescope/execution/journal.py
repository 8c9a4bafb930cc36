# SPDX-License-Identifier: Apache-2.0
"""The journal of an action: one JSON object a line, written and synced before each change it speaks of; and whether a line has
what its readers look at: a damaged one is never obeyed, and never takes `undo` down with it.

`STATE/actions/ID/journal.jsonl`, version 1: `begin`, `step`, `write` (what will be changed, and what was there before), `done`,
`step-end`, `end`, `surprise`, `undo`, `undone`, `undo-end`, `restore`, `restored`. A line cut short by a kill is the last one and
announces nothing that was done.
"""

import base64
import errno
import fcntl
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from enum import StrEnum
from shlex import quote
from typing import Any

from zombiescope.errors import KEPT_BY_NEWER, ActionUndoneError, ObservationError, UsageError, reason_of, unknown_format
from zombiescope.facts.names import unshown
from zombiescope.host.own_folder import STATE, own_folder
from zombiescope.host.safe_paths import UnsafePathError, held_open
from zombiescope.host.whole_file import sync_folder, write_all


class Write(StrEnum):
    """What a line of a journal says is about to be done. Every primitive of a plan is made of these, and `undo` takes each back or
    says why it cannot: one that it does not know is a type error there."""

    PLACE_LINK = "place_link"
    REMOVE_LINK = "remove_link"
    PLACE_FILE = "place_file"
    MAKE_FOLDER = "make_folder"
    SET_FILE = "set_file"
    SET_FILE_FOR_A_MOMENT = "set_file_for_a_moment"
    STOP_UNIT = "stop_unit"
    SWAP_IN = "swap_in"
    FLUSH = "flush"
    REWRITE_FILES = "rewrite_files"
    DELETE_FILES = "delete_files"
    REMOVE_SEGMENTS = "remove_segments"
    DROP_FILES = "drop_files"
    RECLAIM = "reclaim"
    TRIGGER = "trigger"
    DAMAGED = "damaged"
    """As its readers see a line that cannot be obeyed: it says that something was changed, and not what."""


_WRITES = {each.value: each for each in Write}
_KINDS = ("absent", "link", "file", "folder", "other")
_RANGES = {"mode": (0, 0o7777), "uid": (0, (1 << 32) - 1), "gid": (0, (1 << 32) - 1), "mtime_ns": (-(1 << 62), 1 << 62)}
_MOST_PRIORITY = 32_767


def is_ours(entry: "Entry") -> bool:
    """A line that is not says nothing that could be told."""
    if not isinstance(entry.get("entry"), str) or not isinstance(entry.get("v", 0), int | str):
        return False
    wanted = {"write": ("seq", "do"), "done": ("seq",), "undone": ("seq",), "step-end": ("at", "name")}
    types = {"seq": int, "do": str, "at": int | float, "name": str}
    is_told = entry["entry"] != "restored" or _are_paths(entry.get("files"))
    return is_told and all(isinstance(entry.get(name), types[name]) for name in wanted.get(entry["entry"], ()))


def checked(entries: "list[Entry]") -> "list[Entry]":
    """A write that cannot be obeyed becomes one that is DAMAGED; what was there after a change goes where it makes no sense."""
    does = {entry["seq"]: entry["do"] for entry in entries if entry["entry"] == "write"}
    return [_checked(entry, does) for entry in entries]


def _checked(entry: "Entry", does: Mapping[int, str]) -> "Entry":
    if entry["entry"] == "write":
        known = _WRITES.get(entry["do"]) if _is_whole(entry) else None
        if known is None:
            return {name: entry[name] for name in ("v", "entry", "seq") if name in entry} | {"do": Write.DAMAGED}
        return {**entry, "do": known}
    if entry["entry"] == "done" and entry.get("after") is not None:
        is_right = _is_packed if does.get(entry["seq"]) == Write.SET_FILE else _is_found
        return entry if is_right(entry["after"]) else {**entry, "after": None}
    return entry


def _is_whole(entry: "Entry") -> bool:
    wanted = _WANTED.get(entry["do"], {})
    return (
        all(name in entry for name in wanted if (entry["do"], name) not in _MAY_LACK)
        and all(check(entry[name]) for name, check in {**_ANYWHERE, **wanted}.items() if name in entry)
        and ("inodes" not in wanted or len(entry["inodes"]) == len(entry["files"]))
    )


def is_path(value: object) -> bool:
    try:
        return isinstance(value, str) and b"\0" not in unshown(value)
    except UnicodeError:
        return False


def _is_word(value: object) -> bool:
    """Can be handed to a program or to the kernel as it stands."""
    return isinstance(value, str) and "\0" not in value and value.isprintable()


def _is_packed(value: object) -> bool:
    try:
        return isinstance(value, str) and base64.b64decode(value) is not None
    except ValueError:
        return False


def _is_found(value: object) -> bool:
    if not isinstance(value, dict) or value.get("kind") not in _KINDS or not _is_packed(value.get("content", "")):
        return False
    numbers = (_is_between(value.get(name, 0), *limits) for name, limits in _RANGES.items())
    xattrs = value.get("xattrs", {})
    return (
        all(numbers)
        and isinstance(xattrs, dict)
        and all(map(_is_word, xattrs))
        and all(map(_is_packed, xattrs.values()))
    )


def _is_between(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and least <= value <= most


def _are_paths(value: object) -> bool:
    return isinstance(value, list) and all(map(is_path, value))


def _are_pairs(value: object) -> bool:
    return isinstance(value, list) and all(
        isinstance(pair, list) and len(pair) == 2 and all(isinstance(inode, int) for inode in pair) for pair in value
    )


_Check = Callable[[object], bool]
_ANYWHERE: dict[str, _Check] = {
    "path": is_path,
    "unit": _is_word,
    "device": is_path,
    "files": _are_paths,
    "segments": lambda value: isinstance(value, list),
    "kept": lambda value: isinstance(value, dict) and all(map(is_path, (*value, *value.values()))),
    "was": lambda value: isinstance(value, dict) and all(map(is_path, value)) and all(map(_is_found, value.values())),
}
_FILE: dict[str, _Check] = {"path": is_path, "before": _is_found}
_WANTED: dict[Write, dict[str, _Check]] = {
    Write.PLACE_LINK: {**_FILE, "target": _is_packed},
    Write.REMOVE_LINK: _FILE,
    Write.PLACE_FILE: {**_FILE, "content": _is_packed},
    Write.MAKE_FOLDER: _FILE,
    Write.SET_FILE: {"path": is_path, "before": _is_packed, "value": _is_packed},
    Write.SET_FILE_FOR_A_MOMENT: {"path": is_path, "before": _is_word},
    Write.STOP_UNIT: {"unit": _is_word},
    Write.SWAP_IN: {"device": is_path, "priority": lambda value: _is_between(value, -_MOST_PRIORITY, _MOST_PRIORITY)},
    Write.REWRITE_FILES: {"files": _are_paths, "inodes": _are_pairs, "aside": is_path},
    Write.DELETE_FILES: {"files": _are_paths, "aside": is_path},
    Write.REMOVE_SEGMENTS: {"segments": lambda value: isinstance(value, list)},
}
_MAY_LACK = ((Write.DELETE_FILES, "aside"),)
"""Nothing of ours was beside the files."""


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
        self.folder, self.name = folder, os.path.basename(folder)
        self._now, self._fault = now, fault
        with own_folder(os.path.join(folder, "kept"), STATE, make=True):
            flags = os.O_CREAT | os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
            self._handle = os.open(os.path.join(folder, FILE), flags, 0o600)
        size = os.fstat(self._handle).st_size
        if size and os.pread(self._handle, 1, size - 1) != b"\n":
            os.write(self._handle, b"\n")
        sync_folder(folder)
        sync_folder(os.path.dirname(folder))
        self._next = 1 + max((int(entry["seq"]) for entry in self.entries() if entry["entry"] == "write"), default=0)

    def add(self, entry: str, **facts: Any) -> None:
        line = (json.dumps({"v": VERSION, "entry": entry, "at": round(self._now(), 3), **facts}) + "\n").encode()
        if os.write(self._handle, line) != len(line):
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
        with held_open(
            os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        ) as handle:
            try:
                _write_whole(handle, content)
            except OSError:
                with suppress(OSError):
                    os.unlink(path)
                raise
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
    found, formats = [], set()
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
        raise UsageError(
            f"cannot read the journal in {folder}",
            unknown_format(f"version {max(map(str, unknown))}", f"version {VERSION}"),
            KEPT_BY_NEWER,
        )
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
    return ObservationError(
        f"cannot read the journals in {what}",
        reason_of(error),
        _AS_ROOT if _is_denied(error) else "give another folder with --state DIR",
    )


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
            raise UsageError(
                f"cannot trust the journals in {self.place}",
                error.strerror or "",
                "give --state DIR that only you can write to",
            ) from error
        except OSError as error:
            raise cannot_read(self.place, error) from error
        return sorted(name for name in names if os.path.exists(os.path.join(self.place, name, FILE)))

    def folder(self, name: str) -> str:
        return os.path.join(self.place, name)

    @contextmanager
    def locked(self) -> Iterator[None]:
        try:
            with own_folder(self.place, STATE, make=True):
                how = os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
                lock = os.open(os.path.join(self.place, "lock"), how, 0o600)
        except OSError as error:
            raise ActionUndoneError(
                f"cannot keep a journal in {self.place}",
                (error.strerror or "").lower(),
                f"nothing was changed; {_AS_ROOT if _is_denied(error) else '--state DIR'}",
            ) from error
        with held_open(lock):
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                who = os.pread(lock, 20, 0).decode("ascii", "replace").strip() or "unknown"
                raise ActionUndoneError(
                    "another apply or undo is at work",
                    f"process {who} holds {self.place}/lock",
                    "nothing was changed; wait for it",
                ) from error
            with suppress(OSError):  # a courtesy to whoever comes second
                os.ftruncate(lock, 0)
                os.pwrite(lock, str(os.getpid()).encode(), 0)
            yield

    def steps_done_since(self, moment: float) -> Iterator[str]:
        """Names of steps done and not undone, for the circuit breaker."""
        for name in self.names():
            try:
                entries = read_entries(self.folder(name))
            except OSError:
                continue
            is_undone = any(entry["entry"] == "undo-end" for entry in entries)
            for entry in () if is_undone else entries:
                if entry["entry"] == "step-end" and entry["at"] >= moment and entry.get("status") == "done":
                    yield str(entry["name"])


def _write_whole(handle: int, content: bytes) -> None:
    write_all(handle, content)
    os.fsync(handle)
    back = b""
    while part := os.pread(handle, 1 << 20, len(back)):
        back += part
    if back != content:
        raise OSError(errno.EIO, "the copy reads back differently")
