# SPDX-License-Identifier: Apache-2.0
"""Hash maps of a loaded BPF object, read in batches: a few system calls for tens of thousands of entries, little memory."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterator

from zombiescope.kernel.bpf_syscall import BpfRefusedError, Command, address_of, call

_BATCH = 512
_LARGEST_BATCH = 1 << 16
_ATTRIBUTES = struct.Struct("<QQQQIIQQ")


def entries(descriptor: int, key_bytes: int, value_bytes: int) -> Iterator[tuple[bytes, bytes]]:
    """Every entry; one that comes or goes meanwhile may be missing or seen twice."""
    return _batches(Command.MAP_LOOKUP_BATCH, descriptor, key_bytes, value_bytes)


def drained(descriptor: int, key_bytes: int, value_bytes: int) -> Iterator[tuple[bytes, bytes]]:
    """Every entry, taken out of the map."""
    return _batches(Command.MAP_LOOKUP_AND_DELETE_BATCH, descriptor, key_bytes, value_bytes)


def _batches(command: Command, descriptor: int, key_bytes: int, value_bytes: int) -> Iterator[tuple[bytes, bytes]]:
    size = _BATCH
    place, following = bytearray(max(key_bytes, 8)), bytearray(max(key_bytes, 8))
    keys, values = bytearray(key_bytes * size), bytearray(value_bytes * size)
    is_first = True
    while True:
        attributes = bytearray(_ATTRIBUTES.size)
        start = 0 if is_first else address_of(place)
        places = (start, address_of(following), address_of(keys), address_of(values))
        _ATTRIBUTES.pack_into(attributes, 0, *places, size, descriptor, 0, 0)
        is_last = False
        try:
            call(command, attributes)
        except BpfRefusedError as error:
            if error.number == errno.ENOSPC and size < _LARGEST_BATCH:
                size *= 2  # one bucket of the hash holds more than a batch
                keys, values = bytearray(key_bytes * size), bytearray(value_bytes * size)
                continue
            if error.number != errno.ENOENT:
                raise
            is_last = True
        (count,) = struct.unpack_from("<I", attributes, 32)
        for i in range(count):
            yield (
                bytes(keys[i * key_bytes : (i + 1) * key_bytes]),
                bytes(values[i * value_bytes : (i + 1) * value_bytes]),
            )
        if is_last:
            return
        place[:] = following
        is_first = False
