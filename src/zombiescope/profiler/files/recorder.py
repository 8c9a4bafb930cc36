# SPDX-License-Identifier: Apache-2.0
"""Rolling captures: sample, write what comes to a file at once, and make a stored capture of it when the segment is over.

The file being written is a perf stream of its own: what a crash leaves behind is imported by the next recording.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from zombiescope.errors import ObservationError, ZombiescopeError
from zombiescope.host.safe_open import open_regular
from zombiescope.host.whole_file import write_whole
from zombiescope.kernel.kmsg import monotonic_lead_ns
from zombiescope.profiler.files import store
from zombiescope.profiler.files.reading import Choices, read_capture
from zombiescope.profiler.files.rolling import Order, left_behind, name_of, rolling
from zombiescope.profiler.files.sources import drop, open_source
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
            for path in rolling(self.order, source, self.should_stop, seconds):
                yield from self._stored(path, name_of(path))
        finally:
            source.close()

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
        """A recording that was killed is an event to keep."""
        for path in left_behind(self.order.folder):
            yield from self._stored(path, name_of(path), always=True)
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
