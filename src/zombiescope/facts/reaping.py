# SPDX-License-Identifier: Apache-2.0
"""What a reaper may spend, what it asks for, and what came of it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Lever(StrEnum):
    """Least harm first."""

    DROP_FILE = "drop_file"
    """posix_fadvise(DONTNEED) on one file: its clean unmapped pages, nobody else's."""
    RECLAIM_PARENT = "reclaim_parent"
    """v2 memory.reclaim on the nearest live parent: the pages of live siblings are asked for too."""


class Budget(NamedTuple):
    """What a reaper may cost."""

    leave: int = 100
    """Zombies that are nobody's trouble: below this stock nothing is done."""
    pages_per_second: float = 2_000.0
    core_share: float = 0.005
    memory_pressure: float = 10.0
    """Percent of the last ten seconds in which some task waited for memory (PSI some avg10)."""
    io_pressure: float = 20.0
    refaults_per_second: float = 200.0
    """Pages read again a second, above what was usual before."""
    interval_seconds: float = 15.0
    longest_seconds: float = 900.0
    """Between two walks where nothing could be evicted."""


class Health(NamedTuple):
    """Of the whole machine; None where the kernel does not tell."""

    at: float
    """Seconds on a clock that only goes forward."""
    memory_pressure: float | None
    io_pressure: float | None
    refaults: int | None
    """Pages read again since boot."""


class Order(NamedTuple):
    lever: Lever
    target: bytes
    """A file that can be opened, or a live cgroup."""
    parent: bytes
    """Nearest live parent of the zombies that it is about."""
    pages: int
    """Theirs."""
    zombies: frozenset[int]
    """Serials of those that it helps to free."""
    device: str | None = None
    inode: int | None = None


class Done(NamedTuple):
    order: Order
    pages: int | None
    """Evicted; None where the kernel does not tell."""
    refused: str | None = None
    """Why nothing was done."""
