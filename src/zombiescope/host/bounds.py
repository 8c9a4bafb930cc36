# SPDX-License-Identifier: Apache-2.0
"""Where strangers' files are read: an address-space limit and a processor-time limit on this process, in proportion to the file.

The readers have bounds of their own; this one holds where they have a hole. What goes beyond is an error with a way on, no
traceback. Limits that are there already are only ever narrowed, and put back at the end.
"""

import os
import resource
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NamedTuple, NoReturn

from zombiescope.errors import ObservationError
from zombiescope.host.page_size import PAGE_BYTES

_MIB = 1 << 20
_UNTOLD = 1024 * _MIB
"""Taken for this process's own address space where there is no /proc: more than it ever has."""
BASE_BYTES = 192 * _MIB
"""With an interpreter and numpy (50 MiB) a small file stays below 256 MiB."""
BASE_SECONDS = 30
"""Ten times what the slowest small file of the fuzzer takes: a slow or busy machine is no attack."""
SECONDS_PER_MIB = 2
"""An import takes 0.02 s per MiB, an image 0.01 s: a hundred times that."""


_MOST_HOLES = 16
"""File systems that pack what they store make it seem up to ten times smaller."""
_open: list[str] = []
"""What is being read, the innermost last."""


class _Spent(Exception):  # noqa: N818 (never seen outside)
    """The processor time is up."""


class Budget(NamedTuple):
    input_bytes: int
    times: int
    """Bytes of memory that a byte of an honest file may take."""
    of: str = ""
    """What it is, where no bytes are counted: `the unit files of a machine`."""

    @property
    def memory_bytes(self) -> int:
        return BASE_BYTES + self.times * self.input_bytes

    @property
    def cpu_seconds(self) -> int:
        return BASE_SECONDS + SECONDS_PER_MIB * (self.input_bytes // _MIB)


@contextmanager
def bounded(what: str, budget: Budget) -> Iterator[None]:
    """`what` begins the error: `cannot read the image x`."""
    memory, cpu = resource.getrlimit(resource.RLIMIT_AS), resource.getrlimit(resource.RLIMIT_CPU)
    narrowed = _narrower(memory[0], _address_space() + budget.memory_bytes)
    is_main = threading.current_thread() is threading.main_thread()
    handler = signal.signal(signal.SIGXCPU, _end) if is_main else None
    _open.append(what)
    try:
        _limit(resource.RLIMIT_AS, narrowed, memory[1])
        if is_main:
            used = os.times()
            until = int(used.user + used.system) + 1 + budget.cpu_seconds
            _limit(resource.RLIMIT_CPU, _narrower(cpu[0], until), cpu[1])
        yield
    except (MemoryError, _Spent) as error:
        _put_back(memory, cpu)
        seconds = f"{budget.cpu_seconds:,} s of processor time"
        spent = seconds if isinstance(error, _Spent) else f"{budget.memory_bytes // _MIB:,} MiB"
        why = f"it takes more than {spent}, which {budget.of or f'{budget.input_bytes:,} bytes'} never need"
        raise ObservationError(what, why, "take it for hostile or damaged; ask whoever sent it") from error
    finally:
        _open.pop()
        _put_back(memory, cpu)
        if is_main:
            signal.signal(signal.SIGXCPU, handler)


def input_bytes(status: os.stat_result) -> int:
    """What a file counts for. One that is nearly all holes counts for what it takes: a hole is cheap to send."""
    taken = status.st_blocks * 512
    return status.st_size if taken * _MOST_HOLES >= status.st_size else taken


def allow(size: int) -> None:
    """One more file of this machine is mapped: its pages take addresses, and no memory of their own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if _open:
        _limit(resource.RLIMIT_AS, soft + size if hard == resource.RLIM_INFINITY else min(hard, soft + size), hard)


def limit_child(file_bytes: int, cpu_seconds: int | None = None, memory_bytes: int | None = None) -> None:
    """For a program that reads a stranger's file for us, between fork and exec. Without `memory_bytes` our own limit is lifted: it
    would not hold a program that takes more than we do, and that is bounded in other ways."""
    most = resource.getrlimit(resource.RLIMIT_AS)[1] if memory_bytes is None else memory_bytes
    limits = {resource.RLIMIT_AS: most, resource.RLIMIT_FSIZE: file_bytes, resource.RLIMIT_CORE: 0}
    for which, limit in (limits | ({} if cpu_seconds is None else {resource.RLIMIT_CPU: cpu_seconds})).items():
        resource.setrlimit(which, (limit, limit))


def _end(_number: int, _frame: FrameType | None) -> NoReturn:
    raise _Spent


def address_space() -> int:
    """Of this process, in bytes. Raises OSError."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[0]) * PAGE_BYTES


def _address_space() -> int:
    try:
        return address_space()
    except OSError:
        return _UNTOLD


def _narrower(there: int, wanted: int) -> int:
    return wanted if there == resource.RLIM_INFINITY else min(there, wanted)


def _limit(which: int, soft: int, hard: int) -> None:
    resource.setrlimit(which, (soft if hard == resource.RLIM_INFINITY else min(soft, hard), hard))


def _put_back(memory: tuple[int, int], cpu: tuple[int, int]) -> None:
    resource.setrlimit(resource.RLIMIT_AS, memory)
    resource.setrlimit(resource.RLIMIT_CPU, cpu)
