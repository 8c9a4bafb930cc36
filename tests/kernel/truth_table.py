# SPDX-License-Identifier: Apache-2.0
"""Every kind of zombie at once, each in a subtree of its own, and what one `scan --exact` says of each: truth beside answer."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.kernel.lab_driver import LabDriver

from zombiescope.lab.pins.catalogue import KINDS
from zombiescope.lab.pins.files import is_resident

SHMEM_KINDS = frozenset({"tmpfs", "memfd", "shared-anon", "sysv-shm", "child"})
FILE_KINDS = frozenset({"page-cache", "dirty-file", "mapped-file"})
_NATURES = ("file", "shmem", "anon", "swap")
_SCANS = 6
"""Statistics of the kernel may be two seconds old, and an ordinary death takes one; a scan looks twice, a second apart."""


class Row(NamedTuple):
    """What the lab made of one kind, and what `scan` saw of it."""

    kind: str
    zombies: int
    bytes: dict[str, int]
    seen_zombies: int | None
    seen_bytes: dict[str, int]

    @property
    def agrees(self) -> bool:
        return (self.seen_zombies, self.seen_bytes) == (self.zombies, self.bytes)


class Table(NamedTuple):
    rows: tuple[Row, ...]
    total: int
    """Zombies of the whole host, as the census counts them."""
    by_parent: int
    """Zombies of the whole host, as the rows add up: equal where nobody else made or lost any between the two."""
    live: int
    empty_directories: int
    scans: int

    @property
    def disagreeing(self) -> list[Row]:
        return [row for row in self.rows if not row.agrees]


def kinds_of_this_host() -> tuple[str, ...]:
    """Swap only where it is on: without it `lab` refuses that kind, which another test shows."""
    swaps = Path("/proc/swaps").read_text().splitlines()
    return tuple(kind for kind in KINDS if kind != "swap" or len(swaps) > 1)


def make_and_scan(lab: LabDriver, kinds: Sequence[str], count: int) -> Table:
    """Leaves everything in place. Scans until all agree, a few times at most."""
    truths = {kind: lab.zombies(kind, count) for kind in kinds}
    table = _table(truths, _scan(), 1)
    for scans in range(2, _SCANS + 1):
        if not table.disagreeing and table.total == table.by_parent:
            break
        time.sleep(1.0)
        table = _table(truths, _scan(), scans)
    return table


def _scan() -> dict[str, Any]:
    command = [sys.executable, "-m", "zombiescope", "scan", "--exact", "--json"]
    document = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout)
    assert isinstance(document, dict)
    return document


def _table(truths: dict[str, dict[str, Any]], seen: dict[str, Any], scans: int) -> Table:
    parents = {parent["path"]: parent for parent in seen["parents"]}
    rows = tuple(_row(kind, truth, parents.get(truth["subtree"])) for kind, truth in truths.items())
    by_parent = sum(parent["zombies"] for parent in seen["parents"])
    memcg, leak = seen["memcg"], seen["visible_leak"]
    return Table(rows, memcg["zombies"], by_parent, memcg["live"], leak["empty_directories"], scans)


def _row(kind: str, truth: dict[str, Any], parent: dict[str, Any] | None) -> Row:
    """A host may drop a clean page at any time, and the zombie with it: the file tells."""
    gone = [made for made in truth["made"] if kind in FILE_KINDS and not is_resident(made["file"])]
    held = truth["counts"]["bytes"] - sum(made["bytes"] for made in gone)
    expected = dict.fromkeys(_NATURES, 0) | dict.fromkeys(_natures_of(kind), held)
    found = {nature: parent["bytes"][nature] if parent else 0 for nature in _NATURES}
    return Row(kind, truth["counts"]["zombies"] - len(gone), expected, parent["zombies"] if parent else 0, found)


def _natures_of(kind: str) -> Iterable[str]:
    if kind in FILE_KINDS:
        return ("file",)
    if kind in SHMEM_KINDS:
        return ("shmem",)
    return ("swap",) if kind == "swap" else ()
