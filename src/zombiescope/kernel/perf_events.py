# SPDX-License-Identifier: Apache-2.0
"""perf_event_open(2) alone: the processor clock of every core sampled with call chains, into rings that we read.

Asks for all that is useful and, where the kernel refuses a flag it does not know, for less: presence, never version.
"""

import ctypes
import errno
import fcntl
import mmap
import os
import platform
import struct
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from zombiescope.host.page_size import PAGE_BYTES
from zombiescope.host.safe_open import last_error

_NUMBERS = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319, "s390x": 331}
_SOFTWARE, _CPU_CLOCK = 1, 0
_IP, TID, TIME, _CALLCHAIN, _CPU, _PERIOD, _CGROUP_ID = 1, 2, 4, 32, 128, 256, 1 << 21
_DISABLED, _MMAP, COMM, _FREQUENCY, _TASK, SAMPLE_ID_ALL = 1, 1 << 8, 1 << 9, 1 << 10, 1 << 13, 1 << 18
_MMAP2, _COMM_EXEC, _USE_CLOCKID, _KSYMBOL, _CGROUP, _BUILD_ID = 1 << 23, 1 << 24, 1 << 25, 1 << 29, 1 << 32, 1 << 34
_EXCLUDE_USER, _EXCLUDE_IDLE, _EXCLUDE_USER_CHAIN = 1 << 4, 1 << 7, 1 << 22
_CLOCK_MONOTONIC, _CLOSE_ON_EXEC = 1, 8
_ATTR_BYTES, _DEEPEST = 112, 127
_ENABLE, _DISABLE = 0x2400, 0x2401
_HEAD, _TAIL = 1024, 1032  # one behind the other
_UNKNOWN_FLAG = (errno.EINVAL, errno.E2BIG, errno.EOPNOTSUPP)


@dataclass(frozen=True, slots=True)
class Wish:
    """Optional parts."""

    build_ids: bool = True
    cgroups: bool = True
    kernel_symbols: bool = True


_WISHES = (
    Wish(),
    Wish(build_ids=False),
    Wish(build_ids=False, cgroups=False),
    Wish(build_ids=False, cgroups=False, kernel_symbols=False),
)
"""The newest part is the first to be given up."""


def attr(rate_hz: int, wish: Wish) -> bytes:
    flags = _DISABLED | _MMAP | COMM | _FREQUENCY | _TASK | SAMPLE_ID_ALL | _MMAP2 | _COMM_EXEC | _USE_CLOCKID
    optional = (wish.build_ids and _BUILD_ID) | (wish.cgroups and _CGROUP) | (wish.kernel_symbols and _KSYMBOL)
    wanted = _IP | TID | TIME | _CALLCHAIN | _CPU | _PERIOD | (_CGROUP_ID if wish.cgroups else 0)
    return attributes(_CPU_CLOCK, rate_hz, wanted, flags | optional)


def kernel_only(rate_hz: int, wish: Wish) -> bytes:
    """Call chains of the kernel alone, and no records beside the samples: who burns a core there, as cheaply as can be. The idle
    task is left out by the kernel: an idle machine costs nothing."""
    del wish
    flags = _DISABLED | _EXCLUDE_USER | _EXCLUDE_IDLE | _FREQUENCY | _EXCLUDE_USER_CHAIN | _USE_CLOCKID
    return attributes(_CPU_CLOCK, rate_hz, TID | TIME | _CALLCHAIN | _CPU, flags)


def clock_alone(period_ns: int) -> bytes:
    """The processor clock of one core, for a program of ours to run at; it samples nothing by itself."""
    return attributes(_CPU_CLOCK, period_ns, 0, _DISABLED)


def attributes(event: int, rate_or_period: int, wanted: int, flags: int) -> bytes:
    """Of an event that the kernel itself makes: `wanted` in each sample, as often as it is told."""
    raw = bytearray(_ATTR_BYTES)
    struct.pack_into("<IIQQQQQ", raw, 0, _SOFTWARE, _ATTR_BYTES, event, rate_or_period, wanted, 0, flags)
    if flags & _USE_CLOCKID:
        struct.pack_into("<i", raw, 92, _CLOCK_MONOTONIC)
    if wanted & _CALLCHAIN:
        struct.pack_into("<H", raw, 108, _DEEPEST)
    return bytes(raw)


def open_event(raw: bytes, cpu: int, process: int = -1) -> int:
    """-1: every process, or every core; 0: this thread."""
    if (number := _NUMBERS.get(platform.machine())) is None:
        raise OSError(errno.ENOSYS, f"perf_event_open is not known on {platform.machine()}")
    library = ctypes.CDLL(None, use_errno=True)
    buffer = ctypes.create_string_buffer(raw, len(raw))
    descriptor = int(
        library.syscall(
            ctypes.c_long(number),
            buffer,
            ctypes.c_int(process),
            ctypes.c_int(cpu),
            ctypes.c_int(-1),
            ctypes.c_ulong(_CLOSE_ON_EXEC),
        )
    )
    if descriptor < 0:
        raise last_error()
    return descriptor


@dataclass(slots=True)
class _Ring:
    descriptor: int
    memory: mmap.mmap
    size: int


def read_ring(memory: mmap.mmap, size: int) -> bytes:
    """Everything new: whole records, as the kernel moves its end only past whole ones."""
    head, tail = struct.unpack_from("<QQ", memory, _HEAD)
    if head == tail:
        return b""
    _order()
    first, last = tail % size, head % size
    content = memory[PAGE_BYTES + first : PAGE_BYTES + (last if first < last else size)]
    if first >= last:
        content += memory[PAGE_BYTES : PAGE_BYTES + last]
    _order()
    struct.pack_into("<Q", memory, _TAIL, head)
    return content


_gate = threading.Lock()


def _order() -> None:
    """The kernel's head is read before the records, and the records before our tail is written: on ARM a processor may otherwise
    turn that round. A lock given back and taken again is a full barrier."""
    with _gate:
        pass
    with _gate:
        pass


_everything = attr
RING_PAGES = 128
"""Of each core, where nobody asks for another size."""


@dataclass(slots=True)
class Sampler:
    """Every core of this machine, until it is closed. The objects vanish with the process whatever ends it."""

    rate_hz: int
    pages: int = RING_PAGES
    attr: bytes = b""
    ask: Callable[[int, Wish], bytes] = _everything
    """What to ask the kernel for."""
    _rings: list[_Ring] = field(default_factory=list)

    def open(self, cpus: list[int]) -> None:
        for wish in _WISHES:
            self.attr = self.ask(self.rate_hz, wish)
            try:
                self._open_all(cpus)
                return
            except OSError as error:
                self.close()
                if error.errno not in _UNKNOWN_FLAG or wish is _WISHES[-1]:
                    raise

    def _open_all(self, cpus: list[int]) -> None:
        for cpu in cpus:
            try:
                descriptor = open_event(self.attr, cpu)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    continue  # the core went offline meanwhile
                raise
            memory = mmap.mmap(descriptor, (self.pages + 1) * PAGE_BYTES)
            self._rings.append(_Ring(descriptor, memory, self.pages * PAGE_BYTES))
        for ring in self._rings:
            fcntl.ioctl(ring.descriptor, _ENABLE, 0)

    def drain(self) -> list[bytes]:
        return [content for ring in self._rings if (content := read_ring(ring.memory, ring.size))]

    def close(self) -> None:
        for ring in self._rings:
            fcntl.ioctl(ring.descriptor, _DISABLE, 0)
            ring.memory.close()
            os.close(ring.descriptor)
        self._rings.clear()


_HEADER = struct.Struct("<IHH")
_FIXED = struct.Struct("<IIQIIQ")
_LOST, _SAMPLE = 2, 9
_MARKER = 0xFFFFFFFFFFFFF000
"""Addresses above it mark a context (kernel, user, guest); they are no code."""


class StackSample(NamedTuple):
    at: float
    """Seconds on the steady clock."""
    core: int
    thread: int
    frames: tuple[int, ...]
    """Addresses, innermost first."""


class Drained(NamedTuple):
    samples: list[StackSample]
    lost: int


def parse_rings(contents: Iterable[bytes]) -> Drained:
    """Any bytes give what whole records they hold."""
    samples: list[StackSample] = []
    lost = 0
    for content in contents:
        for kind, body in records(content):
            if kind == _SAMPLE:
                if (found := _sample(body)) is not None:
                    samples.append(found)
            elif kind == _LOST and len(body) >= 16:
                lost += int.from_bytes(body[8:16], "little")
    return Drained(samples, lost)


def records(content: bytes) -> Iterator[tuple[int, bytes]]:
    """The kind and what is behind the header of each; a damaged one ends it."""
    at = 0
    while at + _HEADER.size <= len(content):
        kind, _, size = _HEADER.unpack_from(content, at)
        if size < _HEADER.size or at + size > len(content):
            return
        yield kind, content[at + _HEADER.size : at + size]
        at += size


def _sample(body: bytes) -> StackSample | None:
    if len(body) < _FIXED.size:
        return None
    _, thread, time, core, _, depth = _FIXED.unpack_from(body)
    if depth > (len(body) - _FIXED.size) // 8:
        return None
    frames = struct.unpack_from(f"<{depth}Q", body, _FIXED.size)
    return StackSample(time / 1e9, core, thread, tuple(frame for frame in frames if frame < _MARKER))
