# SPDX-License-Identifier: Apache-2.0
"""The journal of a lab run: what will be made, written and synced before it is made.

One JSON object a line. A line cut short by a kill is the last one and announces nothing that exists. The lock beside it
is held by the command that works on the run (the kernel drops it when the command dies), and every process of the run
keeps it open: that is how `lab clean` tells our processes from others.
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path

from zombiescope.lab.places import STATE_ROOTS, state_folder
from zombiescope.lab.processes import mark_self, start_time

JOURNAL = "journal.jsonl"
LOCK = "lock"
TRUTH = "truth.json"
_MOST_BYTES = 64 << 20
"""A thousand times the longest one seen."""
Entry = dict[str, str | int]


@dataclass(slots=True)
class Journal:
    run: str
    folder: str
    lock: int
    lines: int

    def intend(self, what: str, **facts: str | int) -> None:
        """Says on disk what comes next."""
        line = json.dumps({"intent": what, **facts}, sort_keys=True) + "\n"
        os.write(self.lines, line.encode())
        os.fsync(self.lines)

    def intend_process(self, role: str, pid: int) -> None:
        self.intend("process", role=role, pid=pid, start=start_time(pid) or 0)

    def keep_truth(self, document: str) -> None:
        Path(self.folder, TRUTH).write_text(document)

    def close(self) -> None:
        for descriptor in (self.lines, self.lock):
            try:
                os.close(descriptor)
            except OSError:
                continue


def open_journal(run: str) -> Journal:
    mark_self()
    folder = state_folder(run)
    lock = os.open(f"{folder}/{LOCK}", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.lockf(lock, fcntl.LOCK_EX)
    lines = os.open(f"{folder}/{JOURNAL}", os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
    _sync_folder(folder)
    _sync_folder(os.path.dirname(folder))
    journal = Journal(run, folder, lock, lines)
    journal.intend_process("command", os.getpid())
    return journal


def _sync_folder(folder: str) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def entries(run: str) -> list[Entry]:
    """What a run announced, as far as its journal can be read; nothing when it is lost."""
    found: list[Entry] = []
    for root in STATE_ROOTS:
        try:
            with Path(root, run, JOURNAL).open("rb") as file:
                text = file.read(_MOST_BYTES).decode("utf-8", "replace")
        except OSError:
            continue
        for line in text.splitlines():
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(entry, dict):
                found.append(entry)
    return found


def take_over(run: str) -> list[int] | None:
    """Locks a run for cleaning and returns the descriptors to close after; None while a command still works on it."""
    taken: list[int] = []
    for root in STATE_ROOTS:
        try:
            descriptor = os.open(f"{root}/{run}/{LOCK}", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue
        taken.append(descriptor)
        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            for each in taken:
                os.close(each)
            return None
    return taken
