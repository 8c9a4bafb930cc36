# SPDX-License-Identifier: Apache-2.0
"""Whether a line of a journal has what its readers look at: a damaged one is never obeyed, and never takes `undo` down with it."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from zombiescope.facts.names import unshown

Entry = dict[str, Any]


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


def is_ours(entry: Entry) -> bool:
    """A line that is not says nothing that could be told."""
    if not isinstance(entry.get("entry"), str) or not isinstance(entry.get("v", 0), int | str):
        return False
    wanted = {"write": ("seq", "do"), "done": ("seq",), "undone": ("seq",), "step-end": ("at", "name")}
    types = {"seq": int, "do": str, "at": int | float, "name": str}
    if entry["entry"] == "restored" and not _are_paths(entry.get("files")):
        return False
    return all(isinstance(entry.get(name), types[name]) for name in wanted.get(entry["entry"], ()))


def checked(entries: list[Entry]) -> list[Entry]:
    """A write that cannot be obeyed becomes one that is DAMAGED; what was there after a change goes where it makes no sense."""
    does = {entry["seq"]: entry["do"] for entry in entries if entry["entry"] == "write"}
    return [_checked(entry, does) for entry in entries]


def _checked(entry: Entry, does: Mapping[int, str]) -> Entry:
    if entry["entry"] == "write":
        known = _WRITES.get(entry["do"]) if _is_whole(entry) else None
        if known is None:
            return {name: entry[name] for name in ("v", "entry", "seq") if name in entry} | {"do": Write.DAMAGED}
        return {**entry, "do": known}
    if entry["entry"] == "done" and entry.get("after") is not None:
        is_right = _is_packed if does.get(entry["seq"]) == Write.SET_FILE else _is_found
        return entry if is_right(entry["after"]) else {**entry, "after": None}
    return entry


def _is_whole(entry: Entry) -> bool:
    wanted = _WANTED.get(entry["do"], {})
    if not all(name in entry for name in wanted if (entry["do"], name) not in _MAY_LACK):
        return False
    checks = {**_ANYWHERE, **wanted}
    if not all(check(entry[name]) for name, check in checks.items() if name in entry):
        return False
    return "inodes" not in wanted or len(entry["inodes"]) == len(entry["files"])


def is_path(value: object) -> bool:
    if not isinstance(value, str):
        return False
    try:
        return b"\0" not in unshown(value)
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
