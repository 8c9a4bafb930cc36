# SPDX-License-Identifier: Apache-2.0
"""Pins that are no pages: sockets and unreaped processes. And directories nobody removed, which are no zombies at all."""

from __future__ import annotations

import os
import socket

from zombiescope.errors import ObservationError
from zombiescope.lab.hierarchy import write_file
from zombiescope.lab.pins.pin import Bench, Pin, require_descriptors

_TCP_LIMIT = "memory.kmem.tcp.limit_in_bytes"
_FILES_A_MESSAGE = 200


class Socket(Pin):
    """A TCP socket made inside and held outside. On v1 sockets are accounted only below a TCP memory limit."""

    kind = "socket"
    seen_as = "socket"
    bytes_each = 0
    is_held = True

    def __init__(self, bench: Bench) -> None:
        super().__init__(bench)
        self._sockets: list[socket.socket] = []
        self._held: list[int] = []
        self._sender: socket.socket | None = None
        self._receiver: socket.socket | None = None

    def refuse(self) -> None:
        hierarchy = self.bench.hierarchy
        if hierarchy.is_unified or any(
            os.path.exists(hierarchy.file(path, _TCP_LIMIT)) for path in ("/", self.bench.subtree)
        ):
            return
        raise ObservationError(
            "cannot make zombies pinned by sockets",
            f"this kernel's v1 memory hierarchy has no {_TCP_LIMIT}, so sockets are not accounted",
            "choose another --pin",
        )

    def prepare(self, indexes: range) -> None:
        require_descriptors(len(indexes))
        self._sender, self._receiver = socket.socketpair()

    def arm(self, folder: str) -> None:
        if not self.bench.hierarchy.is_unified:
            write_file(f"{folder}/{_TCP_LIMIT}", b"1073741824")

    def charge(self, index: int, folder: str) -> None:
        self._sockets.append(socket.socket(socket.AF_INET, socket.SOCK_STREAM))

    def hand_over(self) -> None:
        assert self._sender is not None
        for start in range(0, len(self._sockets), _FILES_A_MESSAGE):
            batch = [each.fileno() for each in self._sockets[start : start + _FILES_A_MESSAGE]]
            socket.send_fds(self._sender, [b"s"], batch)

    def adopt(self) -> None:
        assert self._sender is not None
        assert self._receiver is not None
        self._sender.close()
        while len(self._held) < self.bench.count:
            message, files, _, _ = socket.recv_fds(self._receiver, 1, _FILES_A_MESSAGE)
            if not message:
                return
            self._held.extend(files)


class Unreaped(Pin):
    """A child that ended inside and whose parent, the process that stays, never waits for it."""

    kind = "unreaped"
    seen_as = "task"
    bytes_each = 0
    is_held = True


class Visible(Pin):
    """Directories left behind: the other disease."""

    kind = "visible"
    seen_as = ""
    bytes_each = 0
