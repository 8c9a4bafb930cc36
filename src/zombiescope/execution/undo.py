# SPDX-License-Identifier: Apache-2.0
"""Takes an action back, newest change first, from its journal alone: also after a kill between any two lines of it.

Every entry is put back to what was there before, whether it was done or only announced; doing it twice changes nothing more.
What somebody else has changed since is left alone and said; so is what only the kernel held, once the machine was started again.
"""

import base64
import errno
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import assert_never

from zombiescope.execution.executor import LOWERED, swap_priority
from zombiescope.execution.grip import clear_copies, put_back_aside
from zombiescope.execution.journal import Entry, Journal, Write
from zombiescope.execution.moves import Hands
from zombiescope.execution.surprise import SurpriseError
from zombiescope.facts.names import counted, shown, unshown
from zombiescope.host.page_size import PAGE_BYTES
from zombiescope.host.removal import Found, found_of
from zombiescope.remedies.receipts import Taken, UndoState

_UP = ("active", "activating", "reloading")
_OF_FILES = (Write.PLACE_LINK, Write.REMOVE_LINK, Write.PLACE_FILE, Write.MAKE_FOLDER)
_LOWERED = (Write.SET_FILE_FOR_A_MOMENT, Write.SET_FILE)
_OF_A_BOOT = (*_LOWERED, Write.STOP_UNIT, Write.SWAP_IN, Write.FLUSH)
"""Held by the kernel or by systemd: gone with a boot."""
_STARTED_AGAIN = "the machine was started again since, and that is gone with it"
_DAMAGED = "its line in the journal is damaged: look there, and put back by hand what it names"

_LOSES = (Write.DELETE_FILES, Write.REMOVE_SEGMENTS)
_LET_GO = (Write.REMOVE_SEGMENTS, Write.DROP_FILES, Write.RECLAIM, Write.TRIGGER)
"""Nothing of it can be taken back."""
_PUT_BACK_AT_ONCE = (Write.SET_FILE_FOR_A_MOMENT, Write.SWAP_IN, Write.FLUSH, Write.REWRITE_FILES)
"""Once they are done there is nothing of ours left: what is there now somebody else has set."""


def pending(entries: list[Entry]) -> list[Entry]:
    """Writes not yet taken back, newest first; `done`: the line that says that it was, with what was there then."""
    gone = {entry["seq"] for entry in entries if entry["entry"] == "undone"}
    done = {entry["seq"]: entry for entry in entries if entry["entry"] == "done"}
    return [
        {**entry, "done": done.get(entry["seq"])}
        for entry in reversed(entries)
        if entry["entry"] == "write" and entry["seq"] not in gone
    ]


def is_in_the_middle(entries: list[Entry], boot_id: str | None) -> bool:
    """It ended without a word, and something of it can still be put back."""
    marks = [entry["entry"] for entry in entries if entry["entry"] in ("begin", "undo", "end", "undo-end")]
    if not marks or marks[-1] in ("end", "undo-end"):
        return False
    return any(_left(entries, boot_id))


def _left(entries: list[Entry], boot_id: str | None) -> Iterator[Entry]:
    """What can still be put back."""
    is_past = _is_another_boot(entries, boot_id)
    return (each for each in pending(entries) if _is_open(each) and not (is_past and each["do"] in _OF_A_BOOT))


def undo_state(entries: list[Entry], boot_id: str | None) -> UndoState:
    if is_in_the_middle(entries, boot_id):
        return UndoState.IN_THE_MIDDLE
    if any(entry["do"] != Write.DELETE_FILES for entry in _left(entries, boot_id)):
        return UndoState.POSSIBLE
    return UndoState.UNDONE if any(entry["entry"] == "undo-end" for entry in entries) else UndoState.NOTHING


def _is_open(entry: Entry) -> bool:
    return entry["done"] is None if entry["do"] in _PUT_BACK_AT_ONCE else entry["do"] not in _LET_GO


def _is_another_boot(entries: list[Entry], boot_id: str | None) -> bool:
    then = next((entry.get("boot_id") for entry in entries if entry["entry"] == "begin"), None)
    return None not in (then, boot_id) and then != boot_id


def undo_all(hands: Hands, *, has_systemd: bool, boot_id: str | None = None) -> list[Taken]:
    """What was lowered first; then files, and only then the units that read them. Nothing that fails keeps the rest from it."""
    journal = hands.journal
    entries = journal.entries()
    with suppress(OSError):
        journal.add("undo")
    todo, is_past = pending(entries), _is_another_boot(entries, boot_id)
    taken = [_take_back(hands, journal, entry, is_past) for entry in todo if entry["do"] in _LOWERED]
    of_files = [entry for entry in todo if entry["do"] in _OF_FILES]
    taken += [_take_back(hands, journal, entry, is_past) for entry in of_files]
    if has_systemd and of_files:
        try:
            hands.reload()
        except SurpriseError as error:
            taken.append(Taken(0, "daemon-reload", "not-restored", str(error)))
    taken += [
        _take_back(hands, journal, entry, is_past) for entry in todo if entry["do"] not in (*_LOWERED, *_OF_FILES)
    ]
    with suppress(OSError):
        journal.add("undo-end", not_restored=sum(each.outcome == "not-restored" for each in taken))
    return taken


def _take_back(hands: Hands, journal: Journal, entry: Entry, is_past: bool) -> Taken:
    what = describe(entry)
    how = _how(entry["do"])
    if is_past and entry["do"] in _OF_A_BOOT:
        how = _only_told("nothing-to-do", _STARTED_AGAIN)
    elif entry["do"] in _PUT_BACK_AT_ONCE and entry["done"] is not None:
        how = _only_told("nothing-to-do", "")
    try:
        outcome, why = how(hands, entry)
    except (SurpriseError, OSError) as error:
        return Taken(entry["seq"], what, "not-restored", str(error))
    if outcome != "not-restored":
        with suppress(OSError):  # a full disk must not end it: doing it twice changes nothing more
            journal.add("undone", seq=entry["seq"], outcome=outcome)
    return Taken(entry["seq"], what, outcome, why, outcome == "cannot-be-undone")


def describe(entry: Entry) -> str:
    target = entry.get("path") or entry.get("unit") or entry.get("device") or ""
    do = str(entry["do"])
    for things in ("files", "segments"):
        if things in entry:
            do, target = do.removesuffix(f"_{things}"), counted(len(entry[things]), things.removesuffix("s"))
    return f"{do.replace('_', ' ')} {target}".strip()


def cannot_be_undone(entry: Entry) -> bool:
    """Data went with it, declared so before it was done."""
    return entry["do"] in _LOSES and entry["done"] is not None


def _place_link(hands: Hands, entry: Entry) -> tuple[str, str]:
    path = unshown(entry["path"])
    if (now := hands.writer.look(path)).kind == "absent":
        return "nothing-to-do", ""
    if now.kind != "link" or now.content != base64.b64decode(entry["target"]) or not _is_as_placed(now, entry):
        return "not-restored", f"{shown(path)} was changed since"
    hands.writer.remove(path)
    return "restored", ""


def _remove_link(hands: Hands, entry: Entry) -> tuple[str, str]:
    path, before = unshown(entry["path"]), found_of(entry["before"])
    if (now := hands.writer.look(path)).kind == "absent":
        hands.writer.place_link(path, before.content, before)
        return "restored", ""
    is_back = (now.kind, now.content) == (before.kind, before.content)
    return ("nothing-to-do", "") if is_back else ("not-restored", f"{shown(path)} was changed since")


def _place_file(hands: Hands, entry: Entry) -> tuple[str, str]:
    path, before = unshown(entry["path"]), found_of(entry["before"])
    hands.writer.clear_beside(path)
    if (now := hands.writer.look(path)) == before:
        return "nothing-to-do", ""
    if now.kind == "file" and now.content == base64.b64decode(entry["content"]) and _is_as_placed(now, entry):
        if before.kind == "absent":
            hands.writer.remove(path)
        else:
            hands.writer.place_file(path, before)
        return "restored", ""
    return "not-restored", f"{shown(path)} was changed since"


def _is_as_placed(now: Found, entry: Entry) -> bool:
    """Owner, mode, time and attributes, where it came to be written down how they were."""
    after = (entry["done"] or {}).get("after")
    return after is None or now._replace(content=b"") == found_of(after)


def _make_folder(hands: Hands, entry: Entry) -> tuple[str, str]:
    path = unshown(entry["path"])
    if hands.writer.look(path).kind == "absent":
        return "nothing-to-do", ""
    try:
        hands.writer.remove_folder(path)
    except OSError:
        return "not-restored", f"{shown(path)} holds something that is not ours"
    return "restored", ""


def _set_value(hands: Hands, entry: Entry) -> tuple[str, str]:
    path, before = unshown(entry["path"]), base64.b64decode(entry["before"])
    if (now := hands.writer.read_value(path)) == before:
        return "nothing-to-do", ""
    if not _is_as_set(now, entry):
        return "not-restored", f"{shown(path)} was set to {shown(now[:80])} since"
    hands.writer.set_file(path, before)
    return "restored", ""


def _is_as_set(now: bytes, entry: Entry) -> bool:
    """As it read after it was set; where that was not written down any more, as the kernel may have rounded it to pages."""
    if (after := (entry["done"] or {}).get("after")) is not None:
        return now == base64.b64decode(after)
    ours = base64.b64decode(entry["value"])
    return now == ours or (ours.isdigit() and now == b"%d" % (int(ours) // PAGE_BYTES * PAGE_BYTES))


def _set_for_a_moment(hands: Hands, entry: Entry) -> tuple[str, str]:
    path, before = unshown(entry["path"]), str(entry["before"]).encode()
    try:
        now = hands.writer.read_value(path)
    except FileNotFoundError:
        return "nothing-to-do", "the cgroup is gone"
    if now == before:
        return "nothing-to-do", ""
    if now != LOWERED:
        return "nothing-to-do", f"it was set to {shown(now[:80])} since"
    hands.writer.set_file(path, before)
    return "restored", ""


def _flush(hands: Hands, entry: Entry) -> tuple[str, str]:
    path = unshown(entry.get("path", ""))
    if not path or hands.writer.look(path).kind != "folder":
        return "nothing-to-do", ""
    hands.writer.remove_folder(path)
    return "restored", "the cgroup made for it is removed"


def _stop_unit(hands: Hands, entry: Entry) -> tuple[str, str]:
    unit = str(entry["unit"])
    if hands.unit_state(unit)["ActiveState"] in _UP:
        return "nothing-to-do", ""
    complaint = hands.systemctl("start", "--no-block", unit)
    return ("not-restored", complaint) if complaint else ("restored", "started again")


def _swap_in(hands: Hands, entry: Entry) -> tuple[str, str]:
    device = unshown(entry["device"])
    if swap_priority(hands.writer.read_value(b"/proc/swaps"), device) is not None:
        return "nothing-to-do", ""
    hands.writer.swap(device, on=True, priority=int(entry["priority"]))
    return "restored", ""


def _delete_files(hands: Hands, entry: Entry) -> tuple[str, str]:
    put_back_aside(hands, entry)
    if entry["done"] is None and all(_is_there(hands, unshown(path)) for path in entry["files"]):
        return "restored", "no file had gone yet"
    kept = len(entry.get("kept") or {})
    copies = f"copies of {kept:,} are in {hands.journal.folder}/kept" if kept else "no copy was kept"
    return "cannot-be-undone", f"the journal lists them; {copies}"


def _is_there(hands: Hands, path: bytes) -> bool:
    try:
        return hands.writer.look(path).kind != "absent"
    except OSError as error:
        return error.errno == errno.EFBIG


def _rewrite_files(hands: Hands, entry: Entry) -> tuple[str, str]:
    clear_copies(hands, entry)
    return "restored", "each file is there, whole, and what was beside it is gone"


_How = Callable[[Hands, Entry], tuple[str, str]]


def _only_told(outcome: str, why: str) -> _How:
    """Where nothing is there to be done."""
    return lambda _hands, _entry: (outcome, why)


def _how(do: Write) -> _How:  # noqa: C901, PLR0911, PLR0912 (one line a write)
    match do:
        case Write.PLACE_LINK:
            return _place_link
        case Write.REMOVE_LINK:
            return _remove_link
        case Write.PLACE_FILE:
            return _place_file
        case Write.MAKE_FOLDER:
            return _make_folder
        case Write.SET_FILE:
            return _set_value
        case Write.SET_FILE_FOR_A_MOMENT:
            return _set_for_a_moment
        case Write.STOP_UNIT:
            return _stop_unit
        case Write.SWAP_IN:
            return _swap_in
        case Write.FLUSH:
            return _flush
        case Write.REWRITE_FILES:
            return _rewrite_files
        case Write.DELETE_FILES:
            return _delete_files
        case Write.REMOVE_SEGMENTS:
            return _only_told("cannot-be-undone", "the journal lists them; what was in them is gone")
        case Write.DROP_FILES | Write.RECLAIM | Write.TRIGGER:
            return _only_told("nothing-to-do", "only cached memory was let go: it is read again when it is needed")
        case Write.DAMAGED:
            return _only_told("not-restored", _DAMAGED)
        case _:
            assert_never(do)
