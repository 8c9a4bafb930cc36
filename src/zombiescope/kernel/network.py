# SPDX-License-Identifier: Apache-2.0
"""What the kernel tells of its network, over sockets: internet sockets with the id of the v2 cgroup they were made in, dead or
alive, by sock_diag(7); and the counters a driver keeps, by the ethtool ioctls.

The id comes with every answer (kernels from 5.8). Each network namespace is asked from inside. Reads only.
"""

import ctypes
import fcntl
import os
import socket
import struct
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from zombiescope.kernel.mount_paths import NETWORK, run_inside

_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _REQUEST_DUMP, _ALL_STATES = 4, 20, 0x301, 0xFFFFFFFF
_ERROR, _DONE, _CGROUP_ID = 2, 3, 21
_HEADER, _ATTRIBUTE = struct.Struct("=IHHII"), struct.Struct("=HH")
_ASKED, _ANSWER = struct.Struct("=BBBBI48x"), struct.Struct("=68xI")
_PROTOCOLS = {socket.IPPROTO_TCP: "tcp", socket.IPPROTO_UDP: "udp"}


class DiagSocket(NamedTuple):
    cgroup: int
    protocol: str
    inode: int


def sockets_of(namespace: bytes) -> list[DiagSocket]:
    """All of one network namespace, given as a link in /proc. Raises OSError where it cannot be entered or asked."""
    found: list[DiagSocket] = []

    def ask_for_all() -> None:
        for family, protocol in product((socket.AF_INET, socket.AF_INET6), _PROTOCOLS):
            found.extend(_sockets(family, protocol))

    run_inside(namespace, NETWORK, ask_for_all)
    return found


def _sockets(family: int, protocol: int) -> Iterator[DiagSocket]:
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
                if (found := parse_answer(message, protocol)) is not None:
                    yield found


def messages(block: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _HEADER.size <= len(block):
        length, kind, *_ = _HEADER.unpack_from(block, at)
        if length < _HEADER.size:
            return
        yield kind, block[at + _HEADER.size : at + length]
        at += (length + 3) & ~3


def parse_answer(message: bytes, protocol: int) -> DiagSocket | None:
    """None where the answer is cut short or has no cgroup id."""
    if len(message) < _ANSWER.size:
        return None
    (inode,) = _ANSWER.unpack_from(message)
    at = _ANSWER.size
    while at + _ATTRIBUTE.size <= len(message):
        length, kind = _ATTRIBUTE.unpack_from(message, at)
        if length < _ATTRIBUTE.size:
            break
        if kind == _CGROUP_ID and length == _ATTRIBUTE.size + 8 and at + length <= len(message):
            return DiagSocket(int.from_bytes(message[at + 4 : at + 12], "little"), _PROTOCOLS[protocol], inode)
        at += (length + 3) & ~3
    return None


_SIOCETHTOOL, _GSTRINGS, _GSTATS, _GSSET_INFO, _STATS_SET = 0x8946, 0x1B, 0x1D, 0x37, 1
_NAME_BYTES, _MOST_COUNTERS = 32, 65536


def read_driver_counters(device: str) -> dict[str, int]:
    """Every counter of one interface of our network namespace; raises OSError where the driver has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as door:
        if not (count := _count(door, device)):
            return {}
        names = _ask(door, device, struct.pack("<III", _GSTRINGS, _STATS_SET, count), count * _NAME_BYTES)
        values = _ask(door, device, struct.pack("<II", _GSTATS, count), count * 8)
    (named,) = struct.unpack_from("<I", names, 8)
    (valued,) = struct.unpack_from("<I", values, 4)
    told = min(count, named, valued)
    texts = struct.iter_unpack(f"{_NAME_BYTES}s", names[12 : 12 + told * _NAME_BYTES])
    return {
        text.partition(b"\0")[0].decode("ascii", "replace").strip(): value
        for (text,), value in zip(texts, struct.unpack_from(f"<{told}Q", values, 8), strict=True)
    }


def _count(door: socket.socket, device: str) -> int:
    answer = _ask(door, device, struct.pack("<IIQ", _GSSET_INFO, 0, 1 << _STATS_SET), 8)
    mask, count = struct.unpack_from("<QI", answer, 8)
    return min(count, _MOST_COUNTERS) if mask else 0


def _ask(door: socket.socket, device: str, question: bytes, room: int) -> bytes:
    """`room` bytes of answer behind the question."""
    buffer = ctypes.create_string_buffer(question, len(question) + room + 8)
    request = struct.pack("<16sQ8x", device.encode()[:15], ctypes.addressof(buffer))
    fcntl.ioctl(door.fileno(), _SIOCETHTOOL, request)
    return bytes(buffer)
