# SPDX-License-Identifier: Apache-2.0
"""A loaded BPF object: run its programs, look into its maps. It lives by file descriptors alone.

Nothing is pinned, and what is attached hangs on a descriptor too: the kernel forgets all of it when the process ends, also by
kill -9.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Mapping
from types import MappingProxyType, TracebackType
from typing import Self

from zombiescope.host.page_size import PAGE_BYTES
from zombiescope.kernel.blob import Blob
from zombiescope.kernel.bpf_syscall import Command, address_of, call, refusal

_ARRAY_MAP = 2
_SYSCALL_PROGRAM = 31
_SLEEPABLE = 1 << 4
_CONTEXT = struct.Struct("<IIIIQ")  # struct bpf_loader_ctx
_MAP = struct.Struct("<iIQ")  # struct bpf_map_desc
_UNSIGNED = struct.Struct("<I")
_INFO_BYTES, _MISSES_AT = 216, 208  # struct bpf_prog_info up to recursion_misses (5.12)


class BpfObject:
    def __init__(self, blob: Blob, entries: Mapping[str, int] = MappingProxyType({})) -> None:
        """`entries`: how many a map holds at most, where that is not what it was built for."""
        context = _run_loader(blob, entries)
        first_program = _CONTEXT.size + _MAP.size * len(blob.maps)
        self._maps = {
            name: _MAP.unpack_from(context, _CONTEXT.size + _MAP.size * i)[0] for i, name in enumerate(blob.maps)
        }
        self._programs = {
            name: _UNSIGNED.unpack_from(context, first_program + 4 * i)[0] for i, name in enumerate(blob.programs)
        }

    def run(self, program: str) -> None:
        attributes = bytearray(80)
        _UNSIGNED.pack_into(attributes, 0, self._programs[program])
        call(Command.PROG_TEST_RUN, attributes)

    def map_memory(self, name: str, size: int, *, writable: bool = False) -> mmap.mmap:
        rounded = (size + PAGE_BYTES - 1) & -PAGE_BYTES
        access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        return mmap.mmap(self._maps[name], rounded, mmap.MAP_SHARED, access)

    def program_descriptor(self, program: str) -> int:
        return int(self._programs[program])

    def map_descriptor(self, name: str) -> int:
        return int(self._maps[name])

    def attach(self, program: str) -> int:
        """To the tracepoint that the program was built for. Closing the descriptor detaches it."""
        attributes = bytearray(16)
        struct.pack_into("<QI", attributes, 0, 0, self._programs[program])
        return call(Command.RAW_TRACEPOINT_OPEN, attributes)

    def missed_runs(self, program: str) -> int:
        """How often the kernel skipped the program because it was already running on that CPU; 0 where it does not count."""
        info, attributes = bytearray(_INFO_BYTES), bytearray(16)
        struct.pack_into("<IIQ", attributes, 0, self._programs[program], len(info), address_of(info))
        call(Command.OBJ_GET_INFO_BY_FD, attributes)
        return int.from_bytes(info[_MISSES_AT : _MISSES_AT + 8], "little")

    def close(self) -> None:
        for descriptor in (*self._maps.values(), *self._programs.values()):
            os.close(descriptor)
        self._maps, self._programs = {}, {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _run_loader(blob: Blob, entries: Mapping[str, int]) -> bytearray:
    """What bpftool's light skeletons do: one program, run once, creates the maps and loads the others."""
    size = _CONTEXT.size + _MAP.size * len(blob.maps) + 4 * len(blob.programs)
    context = bytearray(size + -size % 8)
    _CONTEXT.pack_into(context, 0, len(context), 0, 0, 0, 0)
    for number, name in enumerate(blob.maps):
        _MAP.pack_into(context, _CONTEXT.size + _MAP.size * number, 0, entries.get(name, 0), 0)
    data = _loader_data(blob.data)
    try:
        loader = _loader_program(blob.instructions, data)
    except BaseException:
        os.close(data)
        raise
    try:
        attributes = bytearray(80)
        _UNSIGNED.pack_into(attributes, 0, loader)
        struct.pack_into("<I4xQ", attributes, 40, len(context), address_of(context))
        call(Command.PROG_TEST_RUN, attributes)
    finally:
        os.close(data)
        os.close(loader)
    (result,) = struct.unpack_from("<i", attributes, 4)
    if result < 0:
        raise refusal("PROG_LOAD", -result)
    return context


def _loader_data(data: bytes) -> int:
    attributes = bytearray(72)
    struct.pack_into("<IIII", attributes, 0, _ARRAY_MAP, 4, len(data), 1)
    attributes[28:40] = b"__loader.map"
    descriptor = call(Command.MAP_CREATE, attributes)
    key, value, update = bytearray(4), bytearray(data), bytearray(32)
    struct.pack_into("<I4xQQQ", update, 0, descriptor, address_of(key), address_of(value), 0)
    try:
        call(Command.MAP_UPDATE_ELEM, update)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _loader_program(instructions: bytes, data: int) -> int:
    code, licence = bytearray(instructions), bytearray(b"Dual BSD/GPL\0")
    descriptors = bytearray(struct.pack("<i", data))
    attributes = bytearray(128)
    struct.pack_into("<IIQQ", attributes, 0, _SYSCALL_PROGRAM, len(code) // 8, address_of(code), address_of(licence))
    struct.pack_into("<I", attributes, 44, _SLEEPABLE)
    attributes[48:61] = b"__loader.prog"
    struct.pack_into("<Q", attributes, 120, address_of(descriptors))
    return call(Command.PROG_LOAD, attributes)
