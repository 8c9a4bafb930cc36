# SPDX-License-Identifier: Apache-2.0
"""Who samples for a rolling recording: perf, or our own sampler. Each writes a perf stream to a file, segment after segment."""

import contextlib
import errno
import fcntl
import os
import resource
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, NamedTuple, Protocol

from zombiescope.errors import ObservationError, reason_of
from zombiescope.host.page_size import PAGE_BYTES
from zombiescope.kernel.perf_events import RING_PAGES, Sampler
from zombiescope.profiler.files.stream_head import head, read_kernel_file

_END_SECONDS = 30.0
_MOST_COMPLAINT = 400
_BEGUN = "sampling has begun"
_BESIDE = ("sh", "-c", f"echo {_BEGUN} >&2; exec cat >/dev/null")
OWN_BUFFER_BYTES = RING_PAGES * PAGE_BYTES
PERF_BUFFER_BYTES = 1 << 20
"""For each core; perf writes it when a part of it is full."""
_BUFFER_PAGES = str(PERF_BUFFER_BYTES // PAGE_BYTES)
_OPTIONS = (
    "-q",
    "-a",
    "-g",
    "-e",
    "cpu-clock",
    "-k",
    "CLOCK_MONOTONIC",
    "--no-bpf-event",
    "-m",
    _BUFFER_PAGES,
    "-o",
    "-",
)
_WISHES = (("--buildid-mmap", "--all-cgroups"), ("--all-cgroups",), ("--buildid-mmap",), ())
"""What is worth having where this perf and this kernel know it: which build a file was of, and the cgroup of each sample."""
_TRY_SECONDS = 30.0


def is_installed() -> bool:
    return shutil.which("perf") is not None


class Able(NamedTuple):
    """What perf can do here, tried out."""

    options: tuple[str, ...]
    complaint: str = ""
    """Why it cannot sample; empty where it can."""


def try_perf(rate_hz: int) -> Able:
    """Samples for the moment that `true` takes, as a recording would."""
    complaint = "perf is not installed"
    for options in _WISHES if is_installed() else ():
        try:
            done = subprocess.run(
                _command(rate_hz, options, ("true",)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                env=_environment(),
                timeout=_TRY_SECONDS,
                check=False,
                process_group=0,
            )
        except subprocess.TimeoutExpired:
            return Able((), f"it did not end within {_TRY_SECONDS:g} seconds")
        except OSError as error:
            return Able((), reason_of(error))
        if done.returncode == 0:
            return Able(options)
        complaint = _first_sentence(done.stderr[:_MOST_COMPLAINT]) or f"it ended with {done.returncode}"
    return Able((), complaint)


def _command(rate_hz: int, options: tuple[str, ...], beside: tuple[str, ...]) -> list[str]:
    return [shutil.which("perf") or "perf", "record", *_OPTIONS, *options, "-F", str(rate_hz), "--", *beside]


def _environment() -> dict[str, str]:
    return {**os.environ, "LC_ALL": "C"}


def _first_sentence(said: bytes) -> str:
    words = said.decode("utf-8", "replace").replace(_BEGUN, "").split()
    return " ".join(words).removeprefix("Error: ").partition(". ")[0].rstrip(".")


@dataclass(slots=True)
class PerfRecord:
    """A running `perf record`."""

    _process: subprocess.Popen[bytes]
    _complaints: IO[bytes]

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    @property
    def has_begun(self) -> bool:
        return _BEGUN.encode() in os.pread(self._complaints.fileno(), _MOST_COMPLAINT, 0)

    def end(self) -> str:
        """Lets it write what it has. The first sentence of its complaint when it failed, else nothing."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        try:
            status = self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            status = self._process.wait()
        with self._complaints as complaints:
            first = _first_sentence(os.pread(complaints.fileno(), _MOST_COMPLAINT, 0))
        ended = f"it ended with {status}" if status > 0 else f"signal {-status} ended it"
        return (first or ended) if status else ""


def start_perf_record(output: int, rate_hz: int, options: tuple[str, ...] = (), most_bytes: int = 0) -> PerfRecord:
    """Samples every core into a file that is open, and that does not grow beyond what it may. Raises OSError where perf cannot be
    started."""
    complaints = tempfile.TemporaryFile()  # noqa: SIM115 (closed when the recording ends)
    try:
        process = subprocess.Popen(
            _command(rate_hz, options, _BESIDE),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=complaints,
            env=_environment(),
            process_group=0,
            restore_signals=False,  # as we do, it takes a file that may not grow for an error, and is not ended by it
        )
    except OSError:
        complaints.close()
        raise
    if most_bytes:
        with contextlib.suppress(OSError, ValueError):  # it has ended already
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    return PerfRecord(process, complaints)


AUTO, OWN, PERF = "auto", "own", "perf"
WITH = (AUTO, OWN, PERF)
GROWING = b".recording"
_TAKEN = (b".zscap", b".perf")
_CLAIMED: dict[bytes, int] = {}
"""Locked until they are stored, by this process alone: another recorder in the same folder leaves them, unless we die."""
_LOOK_SECONDS, _BEGIN_SECONDS = 0.5, 60.0
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

    def segment(self, folder: bytes, is_over: IsOver, has_next: Callable[[], bool]) -> bytes:
        """Records until it is over. The file, whose name without its ending is that of the segment."""

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
        hint = _HINT if is_installed() else "leave out --with perf"
        raise ObservationError(f"{_REFUSED} (perf)", able.complaint, hint)
    return _open_own(rate_hz, able.complaint if not is_installed() else f"perf is installed, but: {able.complaint}")


def _open_own(rate_hz: int, why: str) -> Source:
    sampler = Sampler(rate_hz)
    try:
        sampler.open(_online_cpus())
    except OSError as error:
        raise ObservationError(f"{_REFUSED} (perf_event_open)", reason_of(error), _HINT) from error
    return OwnSource(sampler, why)


@dataclass(slots=True)
class OwnSource:
    sampler: Sampler
    why: str = ""
    name: str = OWN
    most_bytes: int = 0
    """Once a segment has so many, the rest waits in the rings for the next one; 0: there is no such size. What its head takes,
    of a machine with many processes, is no reason to take no sample."""

    def begin(self, folder: bytes) -> None:
        """The rings are open already."""

    def segment(self, folder: bytes, is_over: IsOver, has_next: Callable[[], bool]) -> bytes:
        del has_next  # the rings go on filling while a segment is stored
        path = _new_path(folder)
        begin = b"".join(head(self.sampler.attr))
        written = len(begin)
        with os.fdopen(os.dup(_CLAIMED[path]), "wb", buffering=0) as file:  # the name may be another file's by now
            _write_all(file, begin)
            over = False
            while not over:
                # Looked at before the rings are: what came until the end is in the file, however long its head took.
                over = is_over(written)
                if over and self.most_bytes and written >= max(self.most_bytes, len(begin) + 1):
                    break
                time.sleep(0 if over else _LOOK_SECONDS)
                content = b"".join(self.sampler.drain())
                _write_all(file, content)
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
    most_bytes: int = 0
    """Of a segment, whoever comes to end it or not; 0: as much as there is."""
    _running: tuple[bytes, PerfRecord] | None = None

    def begin(self, folder: bytes) -> None:
        self._running = self._running or self._start(folder)

    def segment(self, folder: bytes, is_over: IsOver, has_next: Callable[[], bool]) -> bytes:
        path, perf = self._running or self._start(folder)
        self._running = (path, perf)
        while not is_over(size_of(path)) and not perf.has_ended:
            time.sleep(_LOOK_SECONDS)
        self._running = None
        if has_next() and not perf.has_ended:
            self._running = self._start(folder)
        complaint = perf.end()
        if not complaint:
            return path
        if os.statvfs(folder).f_bavail == 0:  # perf says nothing of it when it is quiet
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if self.most_bytes and size_of(path) >= self.most_bytes:
            complaint = f"its segment has {size_of(path):,} bytes, all that the ring has for one"
        if size_of(path):
            raise ObservationError("perf stopped sampling", complaint, "record again")
        drop(path)
        raise ObservationError(f"{_REFUSED} (perf record)", complaint, _HINT)

    def _start(self, folder: bytes) -> tuple[bytes, PerfRecord]:
        path = _new_path(folder)
        perf = start_perf_record(_CLAIMED[path], self.rate_hz, self.options, self.most_bytes)
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


def _write_all(file: IO[bytes], content: bytes) -> None:
    """A disk that is nearly full takes a part; what follows must not go on in the middle of a record."""
    left = memoryview(content)
    while left:
        left = left[file.write(left) :]


def _new_path(folder: bytes) -> bytes:
    """Named by the moment at which it begins, and ours from then on; a second one in that second waits for the next, and so does
    one in a second that was recorded before somebody set the clock back."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    while True:
        name = os.path.join(folder, time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()).encode())
        path = name + GROWING
        if any(os.path.lexists(name + taken) for taken in _TAKEN):
            time.sleep(0.1)
            continue
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


def size_of(path: bytes) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _online_cpus() -> list[int]:
    try:
        listed = read_kernel_file("/sys/devices/system/cpu/online").decode("ascii").strip().split(",")
        ends = [part.partition("-") for part in listed]
        return [cpu for first, _, last in ends for cpu in range(int(first), int(last or first) + 1)]
    except (OSError, ValueError):
        return list(range(os.cpu_count() or 1))
