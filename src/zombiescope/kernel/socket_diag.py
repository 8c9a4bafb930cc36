# SPDX-License-Identifier: Apache-2.0
"""Internet sockets with the id of the v2 cgroup they were made in, dead or alive, asked of the kernel by sock_diag(7).

The id comes with every answer (kernels from 5.8). Each network namespace is asked from inside.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator
from typing import NamedTuple

from zombiescope.kernel.mount_paths import NETWORK, run_inside

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY = 20
_ERROR, _DONE = 2, 3
_REQUEST_DUMP = 0x301
_ALL_STATES = 0xFFFFFFFF
_CGROUP_ID = 21
_HEADER = struct.Struct("=IHHII")
_ASKED = struct.Struct("=BBBBI48x")
_ANSWER = struct.Struct("=4xHH16s16s12x16xI")
_ATTRIBUTE = struct.Struct("=HH")
_PROTOCOLS = {socket.IPPROTO_TCP: "tcp", socket.IPPROTO_UDP: "udp"}


class DiagSocket(NamedTuple):
    cgroup: int
    protocol: str
    local: str
    remote: str
    inode: int


def sockets_of(namespace: bytes) -> list[DiagSocket]:
    """All of one network namespace, given as a link in /proc. Raises OSError where it cannot be entered or asked."""
    found: list[DiagSocket] = []

    def ask_for_all() -> None:
        for family in (socket.AF_INET, socket.AF_INET6):
            for protocol in _PROTOCOLS:
                found.extend(_ask(family, protocol))

    run_inside(namespace, NETWORK, ask_for_all)
    return found


def _ask(family: int, protocol: int) -> Iterator[DiagSocket]:
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as netlink:
        netlink.settimeout(5)
        body = _ASKED.pack(family, protocol, 0, 0, _ALL_STATES)
        netlink.send(_HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, 1, 0) + body)
        while True:
            for kind, message in messages(netlink.recv(1 << 18)):
                if kind == _DONE:
                    return
                if kind == _ERROR:
                    code = -int.from_bytes(message[:4], "little", signed=True)
                    raise OSError(code, os.strerror(code))
                found = parse_answer(message, family, protocol)
                if found is not None:
                    yield found


def messages(block: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _HEADER.size <= len(block):
        length, kind, *_ = _HEADER.unpack_from(block, at)
        if length < _HEADER.size:
            return
        yield kind, block[at + _HEADER.size : at + length]
        at += (length + 3) & ~3


def parse_answer(message: bytes, family: int, protocol: int) -> DiagSocket | None:
    """None where the answer is cut short or has no cgroup id."""
    if len(message) < _ANSWER.size:
        return None
    source, target, here, there, inode = _ANSWER.unpack_from(message)
    at = _ANSWER.size
    while at + _ATTRIBUTE.size <= len(message):
        length, kind = _ATTRIBUTE.unpack_from(message, at)
        if length < _ATTRIBUTE.size:
            break
        if kind == _CGROUP_ID and length == _ATTRIBUTE.size + 8 and at + length <= len(message):
            cgroup = int.from_bytes(message[at + 4 : at + 12], "little")
            local, remote = _address(family, here, source), _address(family, there, target)
            return DiagSocket(cgroup, _PROTOCOLS[protocol], local, remote, inode)
        at += (length + 3) & ~3
    return None


def _address(family: int, raw: bytes, port: int) -> str:
    number = socket.ntohs(port)
    if family == socket.AF_INET:
        return f"{socket.inet_ntop(family, raw[:4])}:{number}"
    return f"[{socket.inet_ntop(family, raw)}]:{number}"
