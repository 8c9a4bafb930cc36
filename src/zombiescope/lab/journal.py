# SPDX-License-Identifier: Apache-2.0
"""The journal of a lab run: what will be made, written and synced before it is made.

One JSON object a line. A line cut short by a kill is the last one and announces nothing that exists. The lock beside it
is held by the command that works on the run (the kernel drops it when the command dies), and every process of the run
keeps it open: that is how `lab clean` tells our processes from others.

A journal names processes to end: only one in a folder of ours alone is believed, whoever else can make files of that name.
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import dataclass
from pathlib import Path

from zombiescope.host.own_folder import open_own_file
from zombiescope.host.whole_file import sync_folder
from zombiescope.lab.places import FORMER_ROOTS, STATE_ROOTS, own_run, state_folder
from zombiescope.lab.processes import boot_id, mark_self, start_time

JOURNAL = "journal.jsonl"
LOCK = "lock"
TRUTH = "truth.json"
_MOST_BYTES = 64 << 20
"""A thousand times the longest one seen."""
_KEEPERS = (*STATE_ROOTS, *FORMER_ROOTS)
Entry = dict[str, str | int]


@dataclass(slots=True)
class RunJournal:
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
        self.intend("process", role=role, pid=pid, start=start_time(pid) or 0, boot=boot_id())

    def keep_truth(self, document: str) -> None:
        path = Path(self.folder, TRUTH)
        path.touch(mode=0o600)  # `lab list` believes only what is root's alone
        path.write_text(document)

    def close(self) -> None:
        for descriptor in (self.lines, self.lock):
            try:
                os.close(descriptor)
            except OSError:
                continue


def open_journal(run: str) -> RunJournal:
    mark_self()
    folder = state_folder(run)
    lock = os.open(f"{folder}/{LOCK}", os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.lockf(lock, fcntl.LOCK_EX)
    lines = os.open(f"{folder}/{JOURNAL}", os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC, 0o600)
    sync_folder(folder)
    sync_folder(os.path.dirname(folder))
    journal = RunJournal(run, folder, lock, lines)
    journal.intend_process("command", os.getpid())
    return journal


def entries(run: str) -> list[Entry]:
    """What a run announced, as far as its journal can be read; nothing when it is lost."""
    found: list[Entry] = []
    for root in _KEEPERS:
        for line in _text(root, run).splitlines():
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(entry, dict):
                found.append(entry)
    return found


def _text(root: str, run: str) -> str:
    try:
        with own_run(root, run) as folder, os.fdopen(open_own_file(folder, JOURNAL), "rb") as file:
            return file.read(_MOST_BYTES).decode(errors="replace")
    except OSError:
        return ""


def take_over(run: str) -> list[int] | None:
    """Locks a run for cleaning and returns the descriptors to close after; None while a command still works on it."""
    taken: list[int] = []
    for root in _KEEPERS:
        try:
            with own_run(root, run) as folder:
                taken.append(open_own_file(folder, LOCK, os.O_RDWR))
        except OSError:
            continue
        try:
            fcntl.lockf(taken[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            for each in taken:
                os.close(each)
            return None
    return taken
