# SPDX-License-Identifier: Apache-2.0
"""A rolling recording as files: who samples writes one segment after the other, and nothing is read of them here.

Needs no numpy. Where it is not installed, segments stay as they were sampled, perf streams that `profile import` of a full install
reads. The names of kernel functions are then kept beside them, once a recording: after the next boot nobody could tell them.
"""

import contextlib
import errno
import fcntl
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from zombiescope.errors import ObservationError, reason_of
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.host.whole_file import BESIDE, write_whole
from zombiescope.profiler.files.beside import BOOKS, SUMMARY
from zombiescope.profiler.files.sources import AUTO, GROWING, Source, claimed, drop, open_source
from zombiescope.profiler.files.stream_head import read_kernel_file
from zombiescope.profiler.stacks.about import RawFiles

MOST_SEGMENT_BYTES = 512 << 20
_LAST_WORDS_SECONDS = 10.0
_LONG_SECONDS = 3600.0
"""No file takes so long to be written."""
JUMP_SECONDS = 1.0
_CAPTURE = b".zscap"


@dataclass(frozen=True, slots=True)
class Order:
    folder: bytes
    rate_hz: int = 99
    segment_seconds: float = 120.0
    most_bytes: int = 1 << 30
    most_age_seconds: float = 7 * 86_400.0
    source: str = AUTO
    purpose: str = ""
    """Of the ring: recordings for different purposes never remove each other's segments."""
    only_around: bool = False
    """Store only segments in which something happened, the one before and the one after."""
    around_seconds: float = 120.0
    """Before and after a moment worth keeping."""
    least_free_bytes: int = 0


def name_of(path: bytes) -> bytes:
    """The name of a segment that is being written."""
    return os.path.basename(path)[: -len(GROWING)]


def rolling(
    order: Order,
    source: Source,
    should_stop: Callable[[], bool],
    seconds: float | None,
    most_bytes: Callable[[], int] = lambda: MOST_SEGMENT_BYTES,
) -> Iterator[bytes]:
    """The file of each segment that is over: to be stored before the next one is asked for. `most_bytes`: of the next one."""
    with writing(order.folder):
        source.begin(order.folder)
    ends = None if seconds is None else time.monotonic() + seconds

    def is_over() -> bool:
        return should_stop() or (ends is not None and time.monotonic() >= ends)

    is_last = False
    while not is_last:
        try:
            path = _segment(order, source, is_over, most_bytes())
        except ObservationError:
            # What the segment has that could not go on, for want of room or of perf.
            yield from [path for path in claimed()[:1] if os.path.dirname(path) == order.folder]
            raise
        # Asked before it is stored: what is sampled meanwhile is a segment too, however long storing takes.
        is_last = is_over()
        yield path


def _segment(order: Order, source: Source, is_last: Callable[[], bool], most: int) -> bytes:
    with writing(order.folder):
        source.begin(order.folder)
        over = time.monotonic() + order.segment_seconds
        lead = lead_seconds()

        def is_over(written: int) -> bool:
            # A clock that somebody sets ends the segment: each is dated by one clock, and the next by the new one.
            is_set = abs(lead_seconds() - lead) >= JUMP_SECONDS
            return is_set or time.monotonic() >= over or written >= most or is_last()

        return source.segment(order.folder, is_over, lambda: not is_last())


def lead_seconds() -> float:
    """The wall clock before the steady one."""
    return time.time() - time.monotonic()


@contextlib.contextmanager
def writing(folder: bytes) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ObservationError(
            f"cannot write the recording (in {shown(folder)})", reason_of(error), "choose --captures elsewhere"
        ) from error


def left_behind(folder: bytes) -> Iterator[bytes]:
    """Segments of a recording that was killed. One that somebody still writes is theirs."""
    names: list[bytes] = []
    with contextlib.suppress(FileNotFoundError):
        names = sorted(name for name in os.listdir(folder) if name.endswith(GROWING))
    for name in names:
        path = os.path.join(folder, name)
        with contextlib.suppress(FileNotFoundError):
            if not _is_growing(path):
                yield path


class Lying(NamedTuple):
    """What a folder has beside captures and their summaries, in bytes."""

    growing: int
    """As it is sampled, not stored yet."""
    others: int
    """Books, and files that are being written or that a kill left."""


def lying(folder: bytes) -> Lying:
    growing = others = 0
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            is_segment = entry.name.endswith(GROWING)
            if is_segment or entry.name in BOOKS or BESIDE.fullmatch(entry.name):
                with contextlib.suppress(OSError):
                    size = entry.stat(follow_symlinks=False).st_size
                    growing, others = growing + size * is_segment, others + size * (not is_segment)
    return Lying(growing, others)


_MOMENT = re.compile(rb"\d{8}T\d{6}Z")


def sweep(folder: bytes) -> None:
    """Takes away what a kill left and nobody will ever read: files that were not whole yet, summaries without their capture."""
    names: list[bytes] = []
    with contextlib.suppress(OSError):
        names = os.listdir(folder)
    for name in names:
        path, stem = os.path.join(folder, name), name.removesuffix(SUMMARY)
        is_orphan = (
            stem != name and _MOMENT.fullmatch(stem) and not os.path.lexists(os.path.join(folder, stem + _CAPTURE))
        )
        if is_orphan or BESIDE.fullmatch(name):
            with contextlib.suppress(OSError):
                facts = os.lstat(path)
                if stat.S_ISREG(facts.st_mode) and facts.st_uid == os.geteuid() and _is_nobodys(path, facts.st_mtime):
                    os.unlink(path)


def _is_nobodys(path: bytes, written_at: float) -> bool:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
    except OSError as error:
        if error.errno == errno.EAGAIN:
            return False
        return abs(time.time() - written_at) > _LONG_SECONDS  # a file system without leases
    else:
        return True
    finally:
        os.close(descriptor)


def _is_growing(path: bytes) -> bool:
    """Whether its recorder lives, or a process has it open for writing: perf writes what it has when its recorder dies, and gets a
    moment for that."""
    over = time.monotonic() + _LAST_WORDS_SECONDS
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
                fcntl.flock(descriptor, fcntl.LOCK_UN)
            except BlockingIOError:
                return True
            try:
                # The kernel grants a lease on reading only where nobody writes.
                fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_RDLCK)
            except OSError as error:
                if error.errno != errno.EAGAIN:
                    return False  # a file system without leases
                if time.monotonic() >= over:
                    return True
                time.sleep(_LAST_WORDS_SECONDS / 20)
            else:
                return False
    finally:
        os.close(descriptor)


RAW, SYMBOLS = b".perf", b".kallsyms"
_KALLSYMS = "/proc/kallsyms"
_OURS = re.compile(rb"\d{8}T\d{6}Z(\.perf|\.kallsyms)")
_NOTHING = Gap("frames[].name", "nothing was recorded")
_HINT = "run as root, or with CAP_SYSLOG and kernel.kptr_restrict below 2"


class _Taken(Exception):  # noqa: N818 (never seen outside)
    """Another recorder picked it up first."""


class RawSegment(NamedTuple):
    path: bytes
    size_bytes: int
    written_at: float
    who: str


def raw_files(folder: bytes) -> RawFiles | None:
    """None: there are none."""
    ours: list[bytes] = []
    with contextlib.suppress(OSError):
        ours = sorted(name for name in os.listdir(folder) if _OURS.fullmatch(name))
    segments = [name for name in ours if name.endswith(RAW)]
    if not segments:
        return None
    size = 0
    for name in segments:
        with contextlib.suppress(OSError):  # the ring has removed it meanwhile
            size += os.lstat(os.path.join(folder, name)).st_size
    stem = segments[-1].removesuffix(RAW)
    symbols = [name for name in ours if name.endswith(SYMBOLS) and name.removesuffix(SYMBOLS) <= stem]
    return RawFiles(len(segments), size, segments[-1], symbols[-1] if symbols else None)


@dataclass(slots=True)
class RawRecording:
    """One rolling recording. `segments` yields each as it is complete."""

    order: Order
    should_stop: Callable[[], bool]
    told: Callable[[str, str], None] = lambda _, __: None
    symbols: bytes | Gap = _NOTHING
    """The file of kernel symbols that belongs to the segments."""

    def segments(self, seconds: float | None) -> Iterator[RawSegment]:
        for path in left_behind(self.order.folder):
            with contextlib.suppress(_Taken):
                yield self._stored(path, "profile record, found after it had died")
        source = open_source(self.order.source, self.order.rate_hz)
        self.told(source.name, source.why)
        try:
            most = min(MOST_SEGMENT_BYTES, self.order.most_bytes // 6)
            for path in rolling(self.order, source, self.should_stop, seconds, lambda: most):
                if isinstance(self.symbols, Gap):
                    self.symbols = keep_symbols(self.order.folder, name_of(path))
                yield self._stored(path, f"profile record ({source.name})")
        finally:
            source.close()

    def _stored(self, path: bytes, who: str) -> RawSegment:
        """Its bytes are safe before it has its last name."""
        stored = path[: -len(os.path.basename(path))] + name_of(path) + RAW
        with writing(self.order.folder):
            if os.path.lexists(stored):  # a clock that was set back
                raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
            try:
                _sync(path)
            except FileNotFoundError:
                raise _Taken from None
            os.rename(path, stored)
        drop(path)
        facts = os.stat(stored)
        self._keep_ring(stored)
        return RawSegment(stored, facts.st_size, facts.st_mtime, who)

    def _keep_ring(self, newest: bytes) -> None:
        """The oldest of ours go beyond a size or an age; never the newest, and never the symbols of this recording."""
        oldest, total = time.time() - self.order.most_age_seconds, lying(self.order.folder).growing
        for path, facts in sorted(_ours(self.order.folder), reverse=True):
            total += facts.st_size
            if path in (newest, self.symbols):
                continue
            if total > self.order.most_bytes or facts.st_mtime < oldest:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)


def _sync(path: bytes) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _ours(folder: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
    """By the shape of their names, which are moments."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if _OURS.fullmatch(entry.name) and entry.is_file(follow_symlinks=False):
                with contextlib.suppress(FileNotFoundError):
                    yield entry.path, entry.stat(follow_symlinks=False)


def keep_symbols(folder: bytes, name: bytes) -> bytes | Gap:
    """A copy of the running kernel's, or why there is none that names anything."""
    try:
        content = read_kernel_file(_KALLSYMS)
    except OSError as error:
        return Gap("frames[].name", f"the kernel's symbols cannot be read: {reason_of(error)}", _HINT)
    if not re.search(rb"^0*[1-9a-f]", content, re.MULTILINE):
        return Gap("frames[].name", "the kernel hides the addresses of its symbols", _HINT)
    path = os.path.join(folder, name + SYMBOLS)
    with writing(folder):
        write_whole(path, [content], make=0o700)
    return path
