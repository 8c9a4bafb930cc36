# SPDX-License-Identifier: Apache-2.0
"""What the pages of a machine tell about zombies where the kernel's own lists cannot be walked.

A page names only its closest live memory cgroup, so this tier cannot tell one zombie from the next: its records are per nearest
live parent and per file, never per zombie. How many zombies there are comes from the census; `walk` is therefore without
zombies, and says so with a gap. A file is listed only when its pages were proved to be zombies'.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from zombiescope.facts.gap import Gap
from zombiescope.facts.zombies import Pin, PinKind, Tier, Walk

NAMED_KINDS = frozenset(
    {PinKind.TMPFS, PinKind.MEMFD, PinKind.SHARED_ANON, PinKind.SYSV_SHM, PinKind.PAGE_CACHE, PinKind.OTHER}
)
"""Page cache only of files that a process has open or mapped, or that lie in the log folders."""
UNNAMED_KINDS = frozenset(PinKind) - NAMED_KINDS
"""Kinds of which this tier never names the pin: no file holds them, or no page does."""


class Proof(StrEnum):
    """Why pages whose closest live memory cgroup is the parent are not the parent's own."""

    PARENT_OWNS_NONE = "parent_owns_none"
    """v1: the parent's own figure of that kind is 0."""
    PARENT_HANDS_ON = "parent_hands_on"
    """v2: the parent enables memory for its children, so it has no process of its own."""
    MAPPED = "mapped"
    """v1: mapping the pages raised `mapped_file` below the parent and not the parent's own."""


class PinnedFile(NamedTuple):
    parent: bytes
    """Path of the nearest live memory cgroup."""
    pin: Pin
    """`pages` are those of zombies below this parent. `path` may lead through /proc/PID/root."""
    proof: Proof
    holders: tuple[int, ...] = ()
    """Processes seen to have it open or mapped, where that is how it was found."""


class ParentPages(NamedTuple):
    """Physical pages whose closest live memory cgroup is the parent: its own and its zombies' together."""

    file: int
    shmem: int
    anon: int
    other: int


class PageCensus(NamedTuple):
    """Every physical page of the machine, by closest live memory cgroup and kind."""

    by_parent: Mapping[bytes, ParentPages]
    pages: int
    pages_seen: int
    """Less than `pages` when the time was used up."""
    strays: int
    """Charged pages whose memory cgroup has no directory that we know: it came or went meanwhile."""
    gaps: tuple[Gap, ...] = ()


class PagePins(NamedTuple):
    files: tuple[PinnedFile, ...]
    undecided: Mapping[bytes, int]
    """Pages found in files, by parent, that may be the parent's own as well as its zombies'."""
    files_seen: int
    segments_attached: int
    """Detached SysV segments that were attached for a moment, read-only: ipcs shows our process as the last one there."""
    gaps: tuple[Gap, ...] = ()

    def pages_by_parent(self) -> dict[bytes, Counter[PinKind]]:
        """Pages proved to be zombies', by nearest live parent and kind."""
        totals: dict[bytes, Counter[PinKind]] = {}
        for file in self.files:
            totals.setdefault(file.parent, Counter())[file.pin.kind] += file.pin.pages or 0
        return totals

    def walk(self, live_count: int) -> Walk:
        return Walk(Tier.PAGES, (), live_count, (NO_ZOMBIES, *self.gaps))


NO_ZOMBIES = Gap(
    "zombies", "pages name only the nearest live parent, not the zombie", "allow BPF or /proc/kcore to see each one"
)
