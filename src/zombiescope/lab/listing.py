# SPDX-License-Identifier: Apache-2.0
"""`lab list`: which runs are there, and which kinds of zombies can be made. Changes nothing."""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from zombiescope.errors import ObservationError
from zombiescope.facts.gap import Gap
from zombiescope.host.own_folder import open_own_file
from zombiescope.lab.cleaning import find_runs
from zombiescope.lab.hierarchy import find_hierarchy
from zombiescope.lab.journal import TRUTH, entries
from zombiescope.lab.pins.catalogue import KINDS
from zombiescope.lab.places import FORMER_ROOTS, STATE_ROOTS, own_run
from zombiescope.lab.processes import boot_id, start_time

_MOST_BYTES = 64 << 20
WHAT: dict[str, str] = {
    "page-cache": "clean cached pages of a file on disk",
    "dirty-file": "a file with unwritten data",
    "mapped-file": "cached pages that a process maps",
    "tmpfs": "a file in /dev/shm",
    "memfd": "a nameless file in memory that a process holds",
    "shared-anon": "shared memory that a process maps",
    "sysv-shm": "a System V segment",
    "socket": "an open TCP socket",
    "child": "a dead child cgroup",
    "unreaped": "a process that nobody waited for",
    "swap": "memory in swap",
    "visible": "a directory that nobody removed: not a zombie",
}


class Seen(NamedTuple):
    """A run that left any trace."""

    run: str
    action: str | None
    """`zombies`, `leak` or `churn`; None where the run did not get so far as to write down what it made."""
    made: int | None
    by_pin: dict[str, int]
    at_work: bool
    """A command is working on it."""


def list_runs() -> list[Seen] | Gap:
    if os.geteuid() != 0:
        return Gap("runs", "the lab's folders are root's", "sudo zombiescope lab list")
    try:
        hierarchy = find_hierarchy()
    except ObservationError:
        hierarchy = None
    return [_seen(run) for run in find_runs(hierarchy)]


def list_kinds() -> list[dict[str, str]]:
    return [{"kind": kind, "what": WHAT[kind]} for kind in KINDS]


def _seen(run: str) -> Seen:
    truth = _truth(run)
    counts = truth.get("counts") if isinstance(truth.get("counts"), dict) else {}
    assert isinstance(counts, dict)
    return Seen(run, truth.get("action"), counts.get("made"), dict(counts.get("by_pin") or {}), _is_at_work(run))


def _truth(run: str) -> dict[str, Any]:
    for root in (*STATE_ROOTS, *FORMER_ROOTS):
        try:
            with own_run(root, run) as folder, os.fdopen(open_own_file(folder, TRUTH), "rb") as file:
                found = json.loads(file.read(_MOST_BYTES))
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(found, dict):
            return found
    return {}


def _is_at_work(run: str) -> bool:
    """The command that the journal names is alive, by number and start."""
    now = boot_id()
    return any(
        entry.get("role") == "command"
        and entry.get("boot") == now
        and isinstance(entry.get("pid"), int)
        and start_time(int(entry["pid"])) == entry.get("start")
        for entry in entries(run)
    )
