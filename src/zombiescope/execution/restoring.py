# SPDX-License-Identifier: Apache-2.0
"""Puts deleted files back from the copies that were kept: content, owner, mode, attributes and time of change, under the old name.

Nothing is ever replaced: a name that somebody has taken since is left alone and said. The copy is written by a child in the root
cgroup where that can be entered, or the memory of the file would pin the cgroup of whoever typed it, once that dies.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from zombiescope.execution.journal import Entry, Write
from zombiescope.execution.moves import Hands
from zombiescope.execution.undo import Taken
from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.names import unshown
from zombiescope.host.found import Found, found_of
from zombiescope.host.safe_open import open_regular

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
    kept = kept_copies(journal.entries(), journal.folder)
    if kept:
        journal.add("restore", files=[each.path for each in kept])
    home = hierarchy.place(b"/", b"cgroup.procs") if hierarchy and not hierarchy.partial_view else None
    taken = [_restored(hands, each, home) for each in kept]
    back = [each.path for each, done in zip(kept, taken, strict=True) if done.outcome != "not-restored"]
    if back:
        with suppress(OSError):  # doing it twice changes nothing more
            journal.add("restored", files=back)
    return taken


def _restored(hands: Hands, kept: KeptCopy, home: bytes | None) -> Taken:
    outcome, why = _put_back(hands, kept, home)
    return Taken(kept.seq, f"restore {kept.path}", outcome, why)


def _put_back(hands: Hands, kept: KeptCopy, home: bytes | None) -> tuple[str, str]:
    path = unshown(kept.path)
    try:
        copy, _ = open_regular(kept.copy)
    except OSError as error:
        return "not-restored", f"its copy {kept.copy} cannot be read: {error.strerror or error}"
    try:
        hands.writer.restore_file(path, copy, kept.was, home)
    except FileExistsError:
        return _already_there(hands, path, copy)
    except OSError as error:
        return "not-restored", f"{(error.strerror or str(error)).lower()}; its copy is {kept.copy}"
    finally:
        os.close(copy)
    return "restored", ""


def _already_there(hands: Hands, path: bytes, copy: int) -> tuple[str, str]:
    with suppress(OSError):
        there = hands.writer.look(path)
        if there.kind == "file" and there.content == os.pread(copy, os.fstat(copy).st_size, 0):
            return "nothing-to-do", "it is there"
    return "not-restored", "something else has that name now"
