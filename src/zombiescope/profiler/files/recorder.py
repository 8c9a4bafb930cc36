# SPDX-License-Identifier: Apache-2.0
"""Rolling captures: sample, write what comes to a file at once, and make a stored capture of it when the segment is over.

The file being written is a perf stream of its own: what a crash leaves behind is imported by the next recording.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from zombiescope.errors import ObservationError, ZombiescopeError
from zombiescope.facts.names import shown
from zombiescope.host.safe_open import open_regular
from zombiescope.host.whole_file import write_whole
from zombiescope.kernel.kmsg import monotonic_lead_ns
from zombiescope.profiler.files import store
from zombiescope.profiler.files.reading import Choices, read_capture
from zombiescope.profiler.files.sources import AUTO, GROWING, Source, claimed, drop, open_source
from zombiescope.profiler.files.store import entries
from zombiescope.profiler.formats.capture_file import encode
from zombiescope.profiler.stacks.capture import Capture, Clock, Stored

_NUMBER = b".ring"
_FORM = re.compile(r"[0-9a-f]{16}")


def mark_of(folder: bytes, purpose: str) -> str:
    """The mark of segments that are recorded into this folder for this purpose, now or by the next recorder. Raises OSError."""
    path = os.path.join(folder, _NUMBER)
    number = _read(path)
    if number is None:
        number = secrets.token_hex(8)
        write_whole(path, [number.encode()], make=0o700)
        # Of two recorders that begin at once the last one's number stays, and both take that one.
        number = _read(path) or number
    return f"{number} {purpose}"


def _read(path: bytes) -> str | None:
    """None: there is none that makes sense."""
    try:
        descriptor, _ = open_regular(path)
    except OSError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        number = file.read(64).decode("ascii", "replace").strip()
    return number if _FORM.fullmatch(number) else None


def keep_ring(folder: bytes, mark: str, most_bytes: int, oldest: float) -> list[bytes]:
    """Removes the oldest of the ring beyond a size, and those written before a moment; never its newest."""
    mine = [entry for entry in entries(folder) if mark and entry.about is not None and entry.about.ring == mark]
    total = sum(entry.size_bytes for entry in mine)
    removed = []
    for entry in mine[:-1]:
        if total <= most_bytes and entry.written_at >= oldest:
            continue
        if _is_unchanged(entry):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(entry.path)
        total -= entry.size_bytes
        removed.append(entry.path)
    return removed


def _is_unchanged(entry: Stored) -> bool:
    """An import may have taken its name meanwhile."""
    try:
        seen = os.lstat(entry.path)
    except FileNotFoundError:
        return False
    return (seen.st_size, seen.st_mtime) == (entry.size_bytes, entry.written_at)


_MOST_SEGMENT_BYTES = 512 << 20
_LAST_WORDS_SECONDS = 10.0


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


@dataclass(frozen=True, slots=True)
class Segment:
    path: bytes
    capture: Capture


@dataclass(slots=True)
class Recording:
    """One rolling recording. `segments` yields each as it is stored."""

    order: Order
    should_stop: Callable[[], bool]
    keep: Callable[[Capture], bool] = lambda _: True
    """Whether something worth keeping lies in a segment: then it, the one before and the one after are kept."""
    told: Callable[[str, str], None] = lambda _, __: None
    """Hears who samples, and why this one."""
    dropped: Callable[[bytes, str], None] = lambda _, __: None
    """Hears of a segment that holds nothing to store, and why."""
    _waiting: tuple[bytes, Capture] | None = None
    _kept_last: bool = False
    _who: str = ""
    _mark: str = ""
    """Without one, what is stored is never removed."""

    def segments(self, seconds: float | None) -> Iterator[Segment]:
        # First of all: on a disk that is full by the time a segment is over there may be no room for it.
        with contextlib.suppress(OSError):
            self._mark = mark_of(self.order.folder, self.order.purpose)
        yield from self._left_behind()
        source = open_source(self.order.source, self.order.rate_hz)
        self._who = source.name
        self.told(source.name, source.why)
        try:
            with self._writing():
                source.begin(self.order.folder)
            ends = None if seconds is None else time.monotonic() + seconds
            is_last = False
            while not is_last:
                try:
                    path = self._segment(source, ends)
                except ObservationError:
                    yield from self._last()
                    raise
                # Asked before it is stored: what is sampled meanwhile is a segment too, however long storing takes.
                is_last = self._is_over(ends)
                yield from self._stored(path, os.path.basename(path)[: -len(GROWING)])
        finally:
            source.close()

    def _last(self) -> list[Segment]:
        """What the segment has that could not go on, for lack of room or of perf."""
        begun = [path for path in claimed()[:1] if os.path.dirname(path) == self.order.folder]
        return [one for path in begun for one in self._stored(path, os.path.basename(path)[: -len(GROWING)])]

    def _is_over(self, ends: float | None) -> bool:
        return self.should_stop() or (ends is not None and time.monotonic() >= ends)

    def _segment(self, source: Source, ends: float | None) -> bytes:
        with self._writing():
            source.begin(self.order.folder)
            over = time.monotonic() + self.order.segment_seconds
            return source.segment(
                self.order.folder,
                lambda written: time.monotonic() >= over or written >= _MOST_SEGMENT_BYTES or self._is_over(ends),
                lambda: not self._is_over(ends),
            )

    @contextlib.contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise ObservationError(
                f"cannot write the recording (in {shown(self.order.folder)})", why, "choose --captures elsewhere"
            ) from error

    def _stored(self, path: bytes, name: bytes, *, always: bool = False) -> list[Segment]:
        try:
            capture = read_capture(path, Choices())
        except ZombiescopeError as error:
            self.dropped(path, error.why)
            drop(path)
            return []
        who = f"profile record ({self._who})" if not always else "profile record, found after it had died"
        clock = None if always else _on_log(capture.about.clock)
        capture = replace(
            capture, about=capture.about._replace(source=who, clock=clock or capture.about.clock, ring=self._mark)
        )
        is_wanted = always or self.keep(capture)
        wanted = [self._waiting] if is_wanted and self._waiting else []
        self._waiting = None
        if is_wanted or self._kept_last:
            wanted.append((name, capture))
        else:
            self._waiting = (name, capture)
        self._kept_last = is_wanted
        stored = [Segment(self._save(path, one, taken), taken) for one, taken in wanted]
        drop(path)
        keep_ring(self.order.folder, self._mark, self.order.most_bytes, time.time() - self.order.most_age_seconds)
        return stored

    def _left_behind(self) -> Iterator[Segment]:
        """Segments of a recording that was killed, which is an event to keep. One that somebody still writes is theirs."""
        names: list[bytes] = []
        with contextlib.suppress(FileNotFoundError):
            names = sorted(name for name in os.listdir(self.order.folder) if name.endswith(GROWING))
        for name in names:
            path = os.path.join(self.order.folder, name)
            with contextlib.suppress(FileNotFoundError):
                if not _is_growing(path):
                    yield from self._stored(path, name[: -len(GROWING)], always=True)
        self._kept_last = False

    def _save(self, raw: bytes, name: bytes, capture: Capture) -> bytes:
        """Samples as they came take many times the room: on a full disk they make way for what was made of them."""
        try:
            return store.save(self.order.folder, name, encode(capture))
        except ObservationError as error:
            if not isinstance(error.__cause__, OSError) or error.__cause__.errno != errno.ENOSPC:
                raise
            drop(raw)
            return store.save(self.order.folder, name, encode(capture))


def _on_log(clock: Clock | None) -> Clock | None:
    """The samples are on CLOCK_MONOTONIC, from which the log's clock moves away too slowly to matter within a segment."""
    lead = monotonic_lead_ns()
    return None if clock is None or lead is None else clock._replace(log_ns=clock.sample_ns - lead)


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
