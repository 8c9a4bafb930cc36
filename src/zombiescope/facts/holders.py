# SPDX-License-Identifier: Apache-2.0
"""Who holds a zombie without a page of it: a process that nobody reaped, a namespace made inside, a socket made inside."""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.facts.gap import Gap
from zombiescope.facts.zombies import PinKind


class Holder(NamedTuple):
    serial: int
    """Of the zombie."""
    kind: PinKind
    """TASK, NAMESPACE or SOCKET."""
    process: int
    name: bytes
    parent: int
    """The process that should reap it."""
    inode: int
    """Of a socket; else 0."""
    family: str
    """Of a socket: `tcp or udp`, `unix`, `netlink`, ...; else empty."""


class Holders(NamedTuple):
    holders: tuple[Holder, ...]
    gaps: tuple[Gap, ...] = ()
