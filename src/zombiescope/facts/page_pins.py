# SPDX-License-Identifier: Apache-2.0
"""What the pages of a machine tell about zombies where the kernel's own lists cannot be walked.

A page names only its closest live memory cgroup, so this tier cannot tell one zombie from the next: its records are per nearest
live parent and per file, never per zombie. How many zombies there are comes from the census. A file is listed only when its
pages were proved to be zombies'.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from zombiescope.facts.gap import Gap
from zombiescope.facts.plain import of_plain
from zombiescope.facts.zombies import Pin, PinKind

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


class PagePins(NamedTuple):
    files: tuple[PinnedFile, ...]
    undecided: Mapping[bytes, int]
    """Pages found in files, by parent, that may be the parent's own as well as its zombies'."""
    files_seen: int
    segments_attached: int
    """Detached SysV segments that were attached for a moment, read-only: ipcs shows our process as the last one there."""
    gaps: tuple[Gap, ...] = ()


class DeletedTask(NamedTuple):
    """A process that ended in, or runs on in, a memory cgroup whose directory is gone."""

    cgroup: bytes | None
    """Former path of its memory cgroup: proof that this zombie is held. None on v1, where every ended process is shown at the
    root: then it is a candidate, unreaped, and may as well have lived in a cgroup that is there."""
    unified_cgroup: bytes | None
    """Former path in the v2 hierarchy of a hybrid host, if that is gone too; service managers use the same in both."""
    process: int
    name: bytes
    state: str
    """As ps prints it. Z: ended and not reaped by `parent`. X: on its way out. Others run on, below no directory."""
    parent: int


class DeletedTasks(NamedTuple):
    tasks: tuple[DeletedTask, ...]
    gaps: tuple[Gap, ...] = ()


class DeadCgroupSocket(NamedTuple):
    """An internet socket made in a cgroup of the v2 hierarchy that has no directory any more."""

    cgroup: int
    """Id of the dead cgroup: proof, where v2 owns memory."""
    protocol: str
    inode: int
    processes: tuple[int, ...] = ()
    """Some that hold it."""


class SocketCandidates(NamedTuple):
    """Internet sockets alone: of a unix socket the kernel does not tell the cgroup."""

    dead: tuple[DeadCgroupSocket, ...]
    gaps: tuple[Gap, ...] = ()

    @classmethod
    def of_older(cls, value: Any) -> Any:
        """As recordings of 0.1.0 kept it: with addresses, and two numbers that nobody was told."""
        dead, _, _, gaps = value
        return of_plain([[[cgroup, name, *rest] for cgroup, name, _, _, *rest in dead], gaps], cls)


class PageFreePins(NamedTuple):
    tasks: DeletedTasks | Gap
    sockets: SocketCandidates | Gap

    @classmethod
    def of_older(cls, value: Any) -> Any:
        """As recordings of 0.1.0 kept it: with namespaces and writeback, of which nothing was told."""
        tasks, _, sockets, _ = value
        return of_plain([tasks, sockets], cls)


class Beside(NamedTuple):
    """What was found where the zombies could not be seen one by one: files by parent, and pins that hold no page."""

    files: tuple[PinnedFile, ...] = ()
    pins: PageFreePins | None = None


NOTHING_BESIDE = Beside()
