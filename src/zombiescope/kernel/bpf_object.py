# SPDX-License-Identifier: Apache-2.0
"""A loaded BPF object: run its programs, look into its maps. It lives by file descriptors alone.

Nothing is pinned, and what is attached hangs on a descriptor too: the kernel forgets all of it when the process ends, also by
kill -9.
"""

import ctypes
import errno
import json
import mmap
import os
import struct
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType, TracebackType
from typing import Any, NamedTuple, Self

from zombiescope.errors import ObservationError
from zombiescope.host.page_size import PAGE_BYTES
from zombiescope.host.safe_paths import held_open

_NUMBERS = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "loongarch64": 280}
_TRIES = 5


class Command(IntEnum):
    MAP_CREATE = 0
    MAP_UPDATE_ELEM = 2
    PROG_LOAD = 5
    PROG_TEST_RUN = 10
    PROG_GET_FD_BY_ID = 13
    OBJ_GET_INFO_BY_FD = 15
    RAW_TRACEPOINT_OPEN = 17
    MAP_LOOKUP_BATCH = 24
    MAP_LOOKUP_AND_DELETE_BATCH = 25
    ENABLE_STATS = 32


class BpfRefusedError(ObservationError):
    """The kernel, or something in front of it, refused bpf(2)."""

    def __init__(self, what: str, why: str, hint: str = "", number: int = 0) -> None:
        super().__init__(what, why, hint)
        self.number = number


def call(command: Command, attributes: bytearray) -> int:
    """The new descriptor, or 0. `attributes` is read and written by the kernel."""
    number = _NUMBERS.get(os.uname().machine)
    if number is None or sys.byteorder != "little":
        raise BpfRefusedError(_WHAT, f"this architecture ({os.uname().machine}) is not supported", _LOWER_TIERS)
    libc = ctypes.CDLL(None, use_errno=True)
    buffer = (ctypes.c_char * len(attributes)).from_buffer(attributes)
    for _ in range(_TRIES):
        ctypes.set_errno(0)
        result = int(
            libc.syscall(ctypes.c_long(number), ctypes.c_long(command), buffer, ctypes.c_long(len(attributes)))
        )
        if result >= 0:
            return result
        if ctypes.get_errno() not in (errno.EAGAIN, errno.EINTR):
            break
    raise refusal(command.name, ctypes.get_errno())


def address_of(buffer: bytearray) -> int:
    return ctypes.addressof((ctypes.c_char * len(buffer)).from_buffer(buffer))


def refusal(step: str, number: int) -> BpfRefusedError:
    why, hint = _WORDS.get(number, ("", _LOWER_TIERS))
    said = f"bpf({step}) failed with {errno.errorcode.get(number, str(number))} ({os.strerror(number)})"
    return BpfRefusedError(_WHAT, f"{said}: {why}" if why else said, hint, number)


_WHAT = "cannot walk the memory cgroups with BPF"
_LOWER_TIERS = "zombiescope falls back to /proc/kcore and to the page files by itself"
_CAPABILITIES = "run as root, or with CAP_BPF and CAP_PERFMON; in a container also allow bpf(2) in its seccomp profile"
_WORDS = {
    errno.EPERM: ("not permitted: missing capabilities, a seccomp profile, a security module or lockdown", _CAPABILITIES),
    errno.EACCES: ("the kernel's verifier or a security module refused it", _CAPABILITIES),
    errno.ENOSYS: ("this kernel has no bpf(2), or a seccomp profile hides it", _LOWER_TIERS),
    errno.EINVAL: ("the kernel is older than 5.17, a capability is missing, or lockdown forbids reading kernel memory",
                   "see /sys/kernel/security/lockdown; run as root, or with CAP_BPF and CAP_PERFMON"),
    errno.E2BIG: ("the kernel is older than 5.17", _LOWER_TIERS),
    errno.ENOENT: ("the kernel has no type information (/sys/kernel/btf/vmlinux)", "boot a kernel with CONFIG_DEBUG_INFO_BTF"),
    errno.ENOTSUPP if hasattr(errno, "ENOTSUPP") else 524: ("this kernel cannot run such programs", _LOWER_TIERS),
    errno.EOPNOTSUPP: ("this kernel cannot run such programs", _LOWER_TIERS),
    errno.ENOMEM: ("not enough memory for the program and its maps", "free memory, or raise the limit of this cgroup"),
    errno.EMFILE: ("too many open files", "raise `ulimit -n`"),
    errno.ENFILE: ("too many open files on this host", ""),
}  # fmt: skip


MAGIC = b"ZSBPF\x001\n"
_REBUILD = "reinstall zombiescope; developers: tools/build_bpf.py"


class BlobError(ObservationError):
    """The blob in the package is not what was built."""


class Blob(NamedTuple):
    maps: tuple[str, ...]
    programs: tuple[str, ...]
    data: bytes
    instructions: bytes


def packaged(name: str) -> Blob:
    """By the loader of this module, so that it is also found inside a single-file build."""
    read = getattr(__spec__.loader, "get_data", None)
    path = os.path.join(os.path.dirname(__file__), "bpf", name)
    why = "this installation cannot be read"
    if read is not None:
        try:
            return parse_blob(name, bytes(read(path)))
        except OSError as error:
            why = f"it is not in the package ({error})"
    raise BlobError(f"cannot use the BPF object {name}", why, "reinstall zombiescope")


def parse_blob(name: str, content: bytes) -> Blob:
    header, payload = split_blob(name, content)
    try:
        raw = zlib.decompress(payload)
        data_size, size = int(header["data_bytes"]), int(header["bytes"])
        maps, programs = tuple(map(str, header["maps"])), tuple(map(str, header["programs"]))
    except (zlib.error, KeyError, TypeError, ValueError) as error:
        raise BlobError(f"cannot use the BPF object {name}", f"it is damaged ({error})", _REBUILD) from None
    if len(raw) != size or not 0 < data_size < size:
        raise BlobError(
            f"cannot use the BPF object {name}", "its parts have other sizes than its header says", _REBUILD
        )
    return Blob(maps, programs, raw[:data_size], raw[data_size:])


def split_blob(name: str, content: bytes) -> tuple[dict[str, Any], bytes]:
    """Its header, and the packed rest."""
    start = len(MAGIC) + 8
    if not content.startswith(MAGIC) or len(content) < start:
        raise BlobError(f"cannot use the BPF object {name}", "it is truncated or not a BPF object of ours", _REBUILD)
    size, checksum = struct.unpack_from("<II", content, len(MAGIC))
    text = content[start : start + size]
    if len(text) != size or zlib.crc32(text) != checksum:
        raise BlobError(f"cannot use the BPF object {name}", "it is truncated or changed", _REBUILD)
    try:
        header = json.loads(text)
    except ValueError:
        header = None
    if not isinstance(header, dict):
        raise BlobError(f"cannot use the BPF object {name}", "its header is unreadable", _REBUILD)
    return header, content[start + size :]


_ARRAY_MAP, _SYSCALL_PROGRAM, _SLEEPABLE = 2, 31, 1 << 4
_CONTEXT = struct.Struct("<IIIIQ")  # struct bpf_loader_ctx
_MAP = struct.Struct("<iIQ")  # struct bpf_map_desc
_UNSIGNED = struct.Struct("<I")
_INFO_BYTES, _RUNS_AT, _MISSES_AT = 216, 192, 208  # struct bpf_prog_info up to recursion_misses (5.12)


class BpfObject:
    def __init__(self, blob: Blob, entries: Mapping[str, int] = MappingProxyType({})) -> None:
        """`entries`: how many a map holds at most, where that is not what it was built for."""
        self._links: list[int] = []
        context = _run_loader(blob, entries)
        first_program = _CONTEXT.size + _MAP.size * len(blob.maps)
        self.maps: dict[str, int] = {
            name: _MAP.unpack_from(context, _CONTEXT.size + _MAP.size * i)[0] for i, name in enumerate(blob.maps)
        }
        """Descriptors by name, as those of the programs."""
        self.programs: dict[str, int] = {
            name: _UNSIGNED.unpack_from(context, first_program + 4 * i)[0] for i, name in enumerate(blob.programs)
        }

    def run(self, program: str) -> None:
        call(Command.PROG_TEST_RUN, bytearray(struct.pack("<I76x", self.programs[program])))

    def map_memory(self, name: str, size: int, *, writable: bool = False) -> mmap.mmap:
        rounded = (size + PAGE_BYTES - 1) & -PAGE_BYTES
        access = mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
        return mmap.mmap(self.maps[name], rounded, mmap.MAP_SHARED, access)

    def hold(self, programs: Iterable[str]) -> None:
        """Attached, in this order, until `let_go` or `close`."""
        self._links.extend(map(self.attach, programs))

    def let_go(self) -> None:
        for link in self._links:
            os.close(link)
        self._links = []

    def attach(self, program: str) -> int:
        """To the tracepoint that the program was built for. Closing the descriptor detaches it."""
        return call(Command.RAW_TRACEPOINT_OPEN, bytearray(struct.pack("<QI4x", 0, self.programs[program])))

    def missed_runs(self, program: str) -> int:
        """How often the kernel skipped the program because it was already running on that CPU; 0 where it does not count."""
        return int.from_bytes(self._info(program)[_MISSES_AT : _MISSES_AT + 8], "little")

    def run_time(self, program: str) -> tuple[int, int]:
        """Nanoseconds and runs, while somebody had the kernel count them (`count_run_times`, or kernel.bpf_stats_enabled)."""
        return struct.unpack_from("<QQ", self._info(program), _RUNS_AT)

    def _info(self, program: str) -> bytearray:
        info = bytearray(_INFO_BYTES)
        asked = struct.pack("<IIQ", self.programs[program], len(info), address_of(info))
        call(Command.OBJ_GET_INFO_BY_FD, bytearray(asked))
        return info

    def close(self) -> None:
        self.let_go()
        for descriptor in (*self.maps.values(), *self.programs.values()):
            os.close(descriptor)
        self.maps, self.programs = {}, {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def count_run_times() -> int:
    """The kernel counts what BPF programs take until this descriptor is closed."""
    return call(Command.ENABLE_STATS, bytearray(16))


def _run_loader(blob: Blob, entries: Mapping[str, int]) -> bytearray:
    """What bpftool's light skeletons do: one program, run once, creates the maps and loads the others."""
    size = _CONTEXT.size + _MAP.size * len(blob.maps) + 4 * len(blob.programs)
    context = bytearray(size + -size % 8)
    _CONTEXT.pack_into(context, 0, len(context), 0, 0, 0, 0)
    for number, name in enumerate(blob.maps):
        _MAP.pack_into(context, _CONTEXT.size + _MAP.size * number, 0, entries.get(name, 0), 0)
    with held_open(_loader_data(blob.data)) as data, held_open(_loader_program(blob.instructions, data)) as loader:
        attributes = bytearray(struct.pack("<I36xI4xQ24x", loader, len(context), address_of(context)))
        call(Command.PROG_TEST_RUN, attributes)
    (result,) = struct.unpack_from("<i", attributes, 4)
    if result < 0:
        raise refusal("PROG_LOAD", -result)
    return context


def _loader_data(data: bytes) -> int:
    asked = struct.pack("<IIII12x12s32x", _ARRAY_MAP, 4, len(data), 1, b"__loader.map")
    descriptor = call(Command.MAP_CREATE, bytearray(asked))
    key, value = bytearray(4), bytearray(data)
    update = struct.pack("<I4xQQQ", descriptor, address_of(key), address_of(value), 0)
    try:
        call(Command.MAP_UPDATE_ELEM, bytearray(update))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _loader_program(instructions: bytes, data: int) -> int:
    code, licence = bytearray(instructions), bytearray(b"Dual BSD/GPL\0")
    descriptors = bytearray(struct.pack("<i", data))
    places = (address_of(code), address_of(licence), _SLEEPABLE, b"__loader.prog", address_of(descriptors))
    asked = struct.pack("<IIQQ20xI13s59xQ", _SYSCALL_PROGRAM, len(code) // 8, *places)
    return call(Command.PROG_LOAD, bytearray(asked))


_BATCH, _LARGEST_BATCH = 512, 1 << 16
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
        start = 0 if is_first else address_of(place)
        places = (start, address_of(following), address_of(keys), address_of(values))
        attributes = bytearray(_ATTRIBUTES.pack(*places, size, descriptor, 0, 0))
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
