# SPDX-License-Identifier: Apache-2.0
"""Which live process has one of some files open or mapped: one pass over /proc for all of them, by device and inode.

It cannot see what is on its way between two processes, nor processes that it may not look into: their number is told, and without
a lease on a file (`host/removal.py`) nobody may conclude that the file is free.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import NamedTuple

from zombiescope.facts.zombies import HeldBy

FileKey = tuple[str, int]
"""`major:minor` and inode."""


class InUse(NamedTuple):
    holders: dict[FileKey, HeldBy]
    """One per file, for all must let go."""
    unread: int
    """Processes that could not be looked into, by rights and not because they ended."""


def files_in_use(wanted: Collection[FileKey], proc: bytes = b"/proc") -> InUse:
    """Raises OSError where there is no /proc."""
    missing, holders, unread = set(wanted), dict[FileKey, HeldBy](), 0
    own = os.getpid()
    for name in os.listdir(proc):
        if not name.isdigit() or int(name) == own or not missing:
            continue
        process = proc + b"/" + name
        try:
            found = (_opened(process) | _mapped(process)) & missing
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has ended
        except OSError:
            unread += 1
            continue
        holders.update(dict.fromkeys(found, _who(process, name)))
        missing -= found
    return InUse(holders, unread)


def key_of(status: os.stat_result) -> FileKey:
    return f"{os.major(status.st_dev)}:{os.minor(status.st_dev)}", status.st_ino


def _opened(process: bytes) -> set[FileKey]:
    found = set()
    folder = process + b"/fd"
    for name in os.listdir(folder):
        try:
            found.add(key_of(os.stat(folder + b"/" + name)))
        except FileNotFoundError:
            continue  # closed meanwhile
    return found


def _mapped(process: bytes) -> set[FileKey]:
    with open(process + b"/maps", "rb") as file:
        pairs = {tuple(line.split(None, 5)[3:5]) for line in file}
    return {_key(*pair) for pair in pairs if len(pair) == 2}


def _key(device: bytes, inode: bytes) -> FileKey:
    """maps writes devices in hexadecimal."""
    major, _, minor = device.partition(b":")
    return f"{int(major, 16)}:{int(minor, 16)}", int(inode)


def _who(process: bytes, name: bytes) -> HeldBy:
    try:
        with open(process + b"/comm", "rb") as file:
            return HeldBy(int(name), file.read().strip())
    except OSError:
        return HeldBy(int(name))
