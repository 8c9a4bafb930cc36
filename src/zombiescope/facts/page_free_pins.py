# SPDX-License-Identifier: Apache-2.0
"""What keeps a memory cgroup after its death without holding a page of it: tasks, namespaces, sockets, writeback.

On v2 a task names its zombie by former path and an internet socket by id, which is proof. All others are candidates: the kernel
does not tell from outside which dead cgroup they hold.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from zombiescope.facts.gap import Gap


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

    @property
    def is_unreaped(self) -> bool:
        return self.state == "Z"


class DeletedTasks(NamedTuple):
    tasks: tuple[DeletedTask, ...]
    gaps: tuple[Gap, ...] = ()


class CgroupNamespace(NamedTuple):
    """A cgroup namespace other than the machine's own. It holds the cgroups its maker was in when it was made."""

    inode: int
    processes: tuple[int, ...]
    """Some that are in it."""
    mounts: tuple[bytes, ...]
    """Where it is bind-mounted, which keeps it without any process."""
    cgroups: tuple[bytes, ...]
    """Memory cgroups of those processes now; those that are still live are no zombies' reason."""


class CgroupNamespaces(NamedTuple):
    namespaces: tuple[CgroupNamespace, ...]
    gaps: tuple[Gap, ...] = ()


class DeadCgroupSocket(NamedTuple):
    """An internet socket made in a cgroup of the v2 hierarchy that has no directory any more."""

    cgroup: int
    """Id of the dead cgroup: proof, where v2 owns memory."""
    protocol: str
    local: str
    remote: str
    inode: int
    processes: tuple[int, ...] = ()
    """Some that hold it."""


class SocketCandidates(NamedTuple):
    dead: tuple[DeadCgroupSocket, ...]
    unix_count: int | None
    """Unix sockets there are: on v2 each may hold the cgroup it was made in, and the kernel does not tell which."""
    tcp_bytes: Mapping[bytes, int]
    """v1: TCP buffers charged at or below each live directory that no live child accounts for: its own or its zombies'."""
    gaps: tuple[Gap, ...] = ()


class DirtyResidual(NamedTuple):
    """Bytes of files that dead cgroups wrote and that are not on disk yet."""

    dirty: int
    writeback: int


class WritebackTrace(NamedTuple):
    """The tell-tale of writeback structures. A dead cgroup's structure lives on while one of its files is dirty, and on some
    kernels until the next cgroup dies after that; it holds no page, so zombies without residual that go after `sync` are these."""

    by_parent: Mapping[bytes, DirtyResidual]
    """Only parents with any."""
    gaps: tuple[Gap, ...] = ()


class PageFreePins(NamedTuple):
    tasks: DeletedTasks | Gap
    namespaces: CgroupNamespaces | Gap
    sockets: SocketCandidates | Gap
    writeback: WritebackTrace | Gap
