# SPDX-License-Identifier: Apache-2.0
"""Who samples for a rolling recording: perf, or our own sampler. Each writes a perf stream to a file, segment after segment."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from zombiescope.captures.stream_head import head
from zombiescope.errors import ObservationError
from zombiescope.host.perf_tool import PerfRecord, is_installed, start_perf_record, try_perf
from zombiescope.kernel.perf_events import Sampler

AUTO, OWN, PERF = "auto", "own", "perf"
WITH = (AUTO, OWN, PERF)
GROWING = b".recording"
_CLAIMED: dict[bytes, int] = {}
"""Locked until they are stored, by this process alone: another recorder in the same folder leaves them, unless we die."""
_LOOK_SECONDS = 0.5
_BEGIN_SECONDS = 60.0
_REFUSED = "cannot sample the processors"
_ASKED = "asked for with --with"
_HINT = "run as root or with CAP_PERFMON; see kernel.perf_event_paranoid"
IsOver = Callable[[int], bool]
"""Given how many bytes a segment has."""


class Source(Protocol):
    name: str
    why: str
    """Why this one samples and no other."""

    def begin(self, folder: bytes) -> None:
        """Samples when this returns: time counts from then on."""
        ...

    def segment(self, folder: bytes, is_over: IsOver, has_next: Callable[[], bool]) -> bytes:
        """Records until it is over. The file, whose name without its ending is that of the segment."""
        ...

    def close(self) -> None: ...


def open_source(wanted: str, rate_hz: int) -> Source:
    """`auto`: perf where it is installed and can sample, else our own sampler, which needs nothing."""
    if wanted == OWN:
        return _open_own(rate_hz, _ASKED)
    able = try_perf(rate_hz)
    if not able.complaint:
        why = _ASKED if wanted == PERF else "it is installed and can sample here; --with own asks for our own sampler"
        return PerfSource(rate_hz, able.options, why)
    if wanted == PERF:
        missing = "leave out --with perf" if not is_installed() else _HINT
        raise ObservationError(f"{_REFUSED} (perf)", able.complaint, missing)
    return _open_own(rate_hz, able.complaint if not is_installed() else f"perf is installed, but: {able.complaint}")


def _open_own(rate_hz: int, why: str) -> Source:
    sampler = Sampler(rate_hz)
    try:
        sampler.open(_online_cpus())
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ObservationError(f"{_REFUSED} (perf_event_open)", reason, _HINT) from error
    return OwnSource(sampler, why)


@dataclass(slots=True)
class OwnSource:
    sampler: Sampler
    why: str = ""
    name: str = OWN

    def begin(self, folder: bytes) -> None:
        """The rings are open already."""

    def segment(self, folder: bytes, is_over: IsOver, has_next: Callable[[], bool]) -> bytes:
        del has_next  # the rings go on filling while a segment is stored
        path = _new_path(folder)
        written = 0
        with os.fdopen(os.dup(_CLAIMED[path]), "wb", buffering=0) as file:  # the name may be another file's by now
            file.write(b"".join(head(self.sampler.attr)))
            over = False
            while not over:
                # Looked at before the rings are: what came until the end is in the file, however long its head took.
                over = is_over(written)
                time.sleep(0 if over else _LOOK_SECONDS)
                content = b"".join(self.sampler.drain())
                file.write(content)
                written += len(content)
        return path

    def close(self) -> None:
        self.sampler.close()


@dataclass(slots=True)
class PerfSource:
    """One perf a segment; the next one samples before this one ends, so that no moment is missed: neighbours overlap a little."""

    rate_hz: int
    options: tuple[str, ...] = ()
    why: str = ""
    name: str = PERF
    _running: tuple[bytes, PerfRecord] | None = None

    def begin(self, folder: bytes) -> None:
        self._running = self._running or self._start(folder)

    def segment(self, folder: bytes, is_over: IsOver, has_next: Callable[[], bool]) -> bytes:
        path, perf = self._running or self._start(folder)
        self._running = (path, perf)
        while not is_over(_size(path)) and not perf.has_ended:
            time.sleep(_LOOK_SECONDS)
        self._running = None
        if has_next() and not perf.has_ended:
            self._running = self._start(folder)
        complaint = perf.end()
        if not complaint:
            return path
        is_full = os.statvfs(folder).f_bavail == 0  # perf says nothing of it when it is quiet
        if is_full:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if _size(path):
            raise ObservationError("perf stopped sampling", complaint, "record again")
        drop(path)
        raise ObservationError(f"{_REFUSED} (perf record)", complaint, _HINT)

    def _start(self, folder: bytes) -> tuple[bytes, PerfRecord]:
        path = _new_path(folder)
        perf = start_perf_record(_CLAIMED[path], self.rate_hz, self.options)
        deadline = time.monotonic() + _BEGIN_SECONDS
        while not perf.has_begun and not perf.has_ended and time.monotonic() < deadline:
            time.sleep(0.05)
        return path, perf

    def close(self) -> None:
        if self._running is not None:
            path, perf = self._running
            self._running = None
            perf.end()
            drop(path)


def _new_path(folder: bytes) -> bytes:
    """Named by the moment at which it begins, and ours from then on; a second one in that second waits for the next."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    while True:
        path = os.path.join(folder, time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()).encode() + GROWING)
        try:
            _CLAIMED[path] = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            time.sleep(0.1)
        else:
            fcntl.flock(_CLAIMED[path], fcntl.LOCK_EX)
            return path


def claimed() -> list[bytes]:
    """The files of this process that are not stored yet, the oldest first."""
    return sorted(_CLAIMED)


def drop(path: bytes) -> None:
    """It is stored, or holds nothing."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    descriptor = _CLAIMED.pop(path, None)
    if descriptor is not None:
        os.close(descriptor)


def _size(path: bytes) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _online_cpus() -> list[int]:
    try:
        with open("/sys/devices/system/cpu/online", encoding="ascii") as file:  # noqa: PTH123 (a kernel file)
            text = file.read().strip()
        cpus: list[int] = []
        for part in text.split(","):
            first, _, last = part.partition("-")
            cpus += range(int(first), int(last or first) + 1)
        return cpus
    except (OSError, ValueError):
        return list(range(os.cpu_count() or 1))
