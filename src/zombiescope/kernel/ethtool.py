# SPDX-License-Identifier: Apache-2.0
"""The counters a network driver keeps, by the ethtool ioctls: names once, then values. Reads only; needs no privilege."""

from __future__ import annotations

import ctypes
import fcntl
import socket
import struct

_SIOCETHTOOL = 0x8946
_GSTRINGS, _GSTATS, _GSSET_INFO = 0x1B, 0x1D, 0x37
_STATS_SET = 1
_NAME_BYTES = 32
_MOST_COUNTERS = 65536


def read_driver_counters(device: str) -> dict[str, int]:
    """Every counter of one interface of our network namespace; raises OSError where the driver has none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as door:
        count = _count(door, device)
        if not count:
            return {}
        names = _ask(door, device, struct.pack("<III", _GSTRINGS, _STATS_SET, count), count * _NAME_BYTES)
        values = _ask(door, device, struct.pack("<II", _GSTATS, count), count * 8)
    (named,) = struct.unpack_from("<I", names, 8)
    (valued,) = struct.unpack_from("<I", values, 4)
    found: dict[str, int] = {}
    for i in range(min(count, named, valued)):
        name = names[12 + i * _NAME_BYTES :][:_NAME_BYTES].partition(b"\0")[0]
        (value,) = struct.unpack_from("<Q", values, 8 + i * 8)
        found[name.decode("ascii", "replace").strip()] = value
    return found


def _count(door: socket.socket, device: str) -> int:
    answer = _ask(door, device, struct.pack("<IIQ", _GSSET_INFO, 0, 1 << _STATS_SET), 8)
    (mask,) = struct.unpack_from("<Q", answer, 8)
    (count,) = struct.unpack_from("<I", answer, 16)
    return min(count, _MOST_COUNTERS) if mask else 0


def _ask(door: socket.socket, device: str, question: bytes, room: int) -> bytes:
    """`room` bytes of answer behind the question."""
    buffer = ctypes.create_string_buffer(question, len(question) + room + 8)
    request = struct.pack("<16sQ8x", device.encode()[:15], ctypes.addressof(buffer))
    fcntl.ioctl(door.fileno(), _SIOCETHTOOL, request)
    return bytes(buffer)
