# SPDX-License-Identifier: Apache-2.0
"""Every kind of zombie at once, each in a subtree of its own, and what one `scan --exact` says of each: truth beside answer."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.kernel.command import run_command
from tests.kernel.lab_driver import LabDriver

from zombiescope.host.page_size import PAGE_BYTES
from zombiescope.lab.pins.files import is_resident
from zombiescope.lab.runs import KINDS

SEEN_AS = {
    "page-cache": "page_cache",
    "dirty-file": "page_cache",
    "mapped-file": "page_cache",
    "tmpfs": "tmpfs",
    "memfd": "memfd",
    "shared-anon": "shared_anon",
    "sysv-shm": "sysv_shm",
    "socket": "socket",
    "child": "child",
    "unreaped": "task",
    "swap": "swap",
}
"""By what the lab makes: the pin kind of `autopsy` that it must show up as."""
SHMEM_KINDS = frozenset({"tmpfs", "memfd", "shared-anon", "sysv-shm", "child"})
FILE_KINDS = frozenset({"page-cache", "dirty-file", "mapped-file"})
_NATURES = ("file", "shmem", "anon", "swap")
_SCANS = 6
"""Statistics of the kernel may be two seconds old, and an ordinary death takes one; a scan looks twice, a second apart."""


_SCANS_FOR_THE_TOTAL = 2
"""It is everyone's, and on a busy host never still."""


class Row(NamedTuple):
    """What the lab made of one kind and the host had not dropped, and what `scan` saw of it."""

    kind: str
    zombies: int
    bytes: dict[str, int]
    seen_zombies: int | None
    seen_bytes: dict[str, int]
    dropped: int = 0
    """Pages of files, a zombie each, that the host dropped while `scan` looked: it may have seen them or not."""

    @property
    def agrees(self) -> bool:
        """To the unit; what was dropped meanwhile may be there or not."""
        if self.seen_zombies is None or not self.zombies - self.dropped <= self.seen_zombies <= self.zombies:
            return False
        least = self.dropped * PAGE_BYTES
        return all(self.bytes[nature] - least <= seen <= self.bytes[nature] for nature, seen in self.seen_bytes.items())


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
    truths = lab.zombies_of(kinds, count)
    table = _look(truths, 1)
    for scans in range(2, _SCANS + 1):
        if not table.disagreeing and (table.total == table.by_parent or scans > _SCANS_FOR_THE_TOTAL):
            break
        time.sleep(1.0)
        table = _look(truths, scans)
    return table


def _look(truths: dict[str, dict[str, Any]], scans: int) -> Table:
    """A host may drop a clean page at any time, and its zombie goes with it: the files tell, before and after."""
    before = {kind: _present(kind, truth) for kind, truth in truths.items()}
    seen = _scan()
    after = {kind: _present(kind, truth) for kind, truth in truths.items()}
    parents = {parent["path"]: parent for parent in seen["parents"]}
    rows = tuple(
        _row(truth, before[kind], before[kind] - after[kind], parents.get(truth["subtree"]))
        for kind, truth in truths.items()
    )
    by_parent = sum(parent["zombies"] for parent in seen["parents"])
    memcg, leak = seen["memcg"], seen["visible_leak"]
    return Table(rows, memcg["zombies"], by_parent, memcg["live"], leak["empty_directories"], scans)


def _present(kind: str, truth: dict[str, Any]) -> int:
    """Zombies that must be there."""
    gone = sum(kind in FILE_KINDS and not is_resident(made["file"]) for made in truth["made"])
    return int(truth["counts"]["zombies"]) - gone


def _row(truth: dict[str, Any], present: int, dropped: int, parent: dict[str, Any] | None) -> Row:
    kind, held = truth["made"][0]["pin"], truth["counts"]["bytes"]
    if kind in FILE_KINDS:
        held -= (truth["counts"]["zombies"] - present) * PAGE_BYTES
    expected = dict.fromkeys(_NATURES, 0) | dict.fromkeys(_natures_of(kind), held)
    found = {nature: parent["bytes"][nature] if parent else 0 for nature in _NATURES}
    return Row(kind, present, expected, parent["zombies"] if parent else 0, found, dropped)


def _scan() -> dict[str, Any]:
    ended = run_command(["scan", "--exact", "--json"])
    assert ended.status == 0, ended
    document = json.loads(ended.out)
    assert isinstance(document, dict)
    return document


def _natures_of(kind: str) -> Iterable[str]:
    if kind in FILE_KINDS:
        return ("file",)
    if kind in SHMEM_KINDS:
        return ("shmem",)
    return ("swap",) if kind == "swap" else ()
