# SPDX-License-Identifier: Apache-2.0
"""Takes an action back, newest change first, from its journal alone: also after a kill between any two lines of it.

Every entry is put back to what was there before, whether it was done or only announced; doing it twice changes nothing more.
What somebody else has changed since is left alone and said.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from zombiescope.execution.deletion import put_back_aside
from zombiescope.execution.freeing import swap_priority
from zombiescope.execution.journal import Entry, Journal
from zombiescope.execution.moves import Hands
from zombiescope.execution.surprise import SurpriseError
from zombiescope.facts.names import shown, unshown
from zombiescope.host.writes import Found, found_of

_UP = ("active", "activating", "reloading")
_OF_FILES = ("place_link", "remove_link", "place_file", "make_folder")
_LOST = ("delete_files", "remove_segments")


class Taken(NamedTuple):
    """One change taken back, or why not."""

    seq: int
    what: str
    outcome: str
    """`restored`, `nothing-to-do`, `cannot-be-undone` (declared so before), `not-restored`."""
    why: str = ""
    is_lost: bool = False
    """Something of value went."""


def pending(entries: list[Entry]) -> list[Entry]:
    """Writes not yet taken back, newest first."""
    gone = {entry["seq"] for entry in entries if entry["entry"] == "undone"}
    return [entry for entry in reversed(entries) if entry["entry"] == "write" and entry["seq"] not in gone]


def undo_all(hands: Hands, *, has_systemd: bool) -> list[Taken]:
    journal = hands.journal
    todo = pending(journal.entries())
    taken = [_take_back(hands, journal, entry) for entry in todo if entry["do"] in _OF_FILES]
    if has_systemd and any(entry["do"] in _OF_FILES for entry in todo):
        hands.reload()
    taken += [_take_back(hands, journal, entry) for entry in todo if entry["do"] not in _OF_FILES]
    with suppress(OSError):
        journal.add("undo-end", not_restored=sum(each.outcome == "not-restored" for each in taken))
    return taken


def _take_back(hands: Hands, journal: Journal, entry: Entry) -> Taken:
    what = describe(entry)
    try:
        outcome, why = _HOW.get(entry["do"], _cannot)(hands, entry)
    except (SurpriseError, OSError) as error:
        return Taken(entry["seq"], what, "not-restored", str(error))
    if outcome != "not-restored":
        with suppress(OSError):  # a full disk must not end it: doing it twice changes nothing more
            journal.add("undone", seq=entry["seq"], outcome=outcome)
    return Taken(entry["seq"], what, outcome, why, entry["do"] in _LOST)


def describe(entry: Entry) -> str:
    target = entry.get("path") or entry.get("unit") or entry.get("device") or ""
    if "files" in entry:
        target = f"{len(entry['files'])} files"
    if "segments" in entry:
        target = f"{len(entry['segments'])} segments"
    return f"{str(entry['do']).replace('_', ' ')} {target}".strip()


def _entry_files(entry: Entry) -> tuple[bytes, Found]:
    return unshown(entry["path"]), found_of(entry["before"])


def _place_link(hands: Hands, entry: Entry) -> tuple[str, str]:
    path, _ = _entry_files(entry)
    now = hands.writer.look(path)
    if now.kind == "absent":
        return "nothing-to-do", ""
    if now.kind != "link" or now.content != base64.b64decode(entry["target"]):
        return "not-restored", f"{shown(path)} was changed since"
    hands.writer.remove(path)
    return "restored", ""


def _remove_link(hands: Hands, entry: Entry) -> tuple[str, str]:
    path, before = _entry_files(entry)
    now = hands.writer.look(path)
    if now.kind == "absent":
        hands.writer.place_link(path, before.content)
        return "restored", ""
    if now == before:
        return "nothing-to-do", ""
    return "not-restored", f"{shown(path)} was changed since"


def _place_file(hands: Hands, entry: Entry) -> tuple[str, str]:
    path, before = _entry_files(entry)
    now = hands.writer.look(path)
    if now == before:
        return "nothing-to-do", ""
    if now.kind == "file" and now.content == base64.b64decode(entry["content"]):
        if before.kind == "absent":
            hands.writer.remove(path)
        else:
            hands.writer.place_file(path, before)
        return "restored", ""
    return "not-restored", f"{shown(path)} was changed since"


def _make_folder(hands: Hands, entry: Entry) -> tuple[str, str]:
    path, _ = _entry_files(entry)
    if hands.writer.look(path).kind == "absent":
        return "nothing-to-do", ""
    try:
        hands.writer.remove_folder(path)
    except OSError:
        return "not-restored", f"{shown(path)} holds something that is not ours"
    return "restored", ""


def _set_value(hands: Hands, entry: Entry) -> tuple[str, str]:
    path, before = unshown(entry["path"]), base64.b64decode(entry["before"])
    if hands.writer.read_value(path) == before:
        return "nothing-to-do", ""
    hands.writer.set_file(path, before)
    return "restored", ""


def _set_for_a_moment(hands: Hands, entry: Entry) -> tuple[str, str]:
    path, before = unshown(entry["path"]), str(entry["before"]).encode()
    if hands.writer.read_value(path) == before:
        return "nothing-to-do", ""
    hands.writer.set_file(path, before)
    return "restored", ""


def _stop_unit(hands: Hands, entry: Entry) -> tuple[str, str]:
    unit = str(entry["unit"])
    if hands.unit_state(unit)["ActiveState"] in _UP:
        return "nothing-to-do", ""
    complaint = hands.start_unit(unit)
    return ("not-restored", complaint) if complaint else ("restored", "started again")


def _swap_in(hands: Hands, entry: Entry) -> tuple[str, str]:
    device = unshown(entry["device"])
    if swap_priority(hands.writer.read_value(b"/proc/swaps"), device) is not None:
        return "nothing-to-do", ""
    hands.writer.swap(device, on=True, priority=int(entry["priority"]))
    return "restored", ""


def _delete_files(hands: Hands, entry: Entry) -> tuple[str, str]:
    put_back_aside(hands, entry)
    return _cannot(hands, entry)


def _cannot(_: Hands, entry: Entry) -> tuple[str, str]:
    if entry["do"] in _LOST:
        kept = entry.get("kept") or {}
        return "cannot-be-undone", f"what went is listed in the journal; copies of {len(kept)} are kept beside it"
    return "cannot-be-undone", "memory that was let go is read again when it is wanted"


_How = Callable[[Hands, Entry], tuple[str, str]]
_HOW: dict[str, _How] = {
    "place_link": _place_link,
    "remove_link": _remove_link,
    "place_file": _place_file,
    "make_folder": _make_folder,
    "set_file": _set_value,
    "set_file_for_a_moment": _set_for_a_moment,
    "stop_unit": _stop_unit,
    "swap_in": _swap_in,
    "delete_files": _delete_files,
}


def is_whole(taken: list[Taken]) -> bool:
    """Everything that can be put back was, and nothing of value went."""
    return not any(each.outcome == "not-restored" or each.is_lost for each in taken)
