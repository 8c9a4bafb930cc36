# SPDX-License-Identifier: Apache-2.0
"""Rolling captures: sample, write what comes to a file at once, and store a capture of it, summed up, when the segment is over.

The file being written is a perf stream of its own: what a crash leaves behind is imported by the next recording.
"""

import contextlib
import errno
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from zombiescope.errors import ObservationError, ZombiescopeError
from zombiescope.kernel.kmsg import monotonic_lead_ns
from zombiescope.profiler.files import store
from zombiescope.profiler.files.beside import RecorderJournal, add_reasons, read_notes, take_asked, write_beside
from zombiescope.profiler.files.reading import Choices, read_capture
from zombiescope.profiler.files.ring import Bounds, Held, Now, Seen, held, make_way, mark_of
from zombiescope.profiler.files.rolling import (
    JUMP_SECONDS,
    MOST_SEGMENT_BYTES,
    Order,
    lead_seconds,
    left_behind,
    lying,
    name_of,
    rolling,
    sweep,
)
from zombiescope.profiler.files.sources import (
    OWN_BUFFER_BYTES,
    PERF_BUFFER_BYTES,
    OwnSource,
    PerfSource,
    Source,
    drop,
    open_source,
    size_of,
)
from zombiescope.profiler.files.stream_head import read_kernel_file
from zombiescope.profiler.files.summing import Summing
from zombiescope.profiler.files.symbol_files import RunningKernel
from zombiescope.profiler.formats.capture_file import encode
from zombiescope.profiler.stacks.about import Reason
from zombiescope.profiler.stacks.capture import Capture, Clock

_MOST_REASONS = 200
_STEADY_SECONDS = 3600.0
"""A wall clock that was set within this time is not asked for the age of what another boot left."""
_BOOT = "/proc/sys/kernel/random/boot_id"
_RAW_BYTES_PER_SAMPLE = 300
"""Of a segment as it is sampled, until one has shown how many."""
_LEAST_RAW_BYTES, _FIRST_RAW_BYTES = 512 << 10, 8 << 20


@dataclass(frozen=True, slots=True)
class Segment:
    path: bytes
    capture: Capture


@dataclass(slots=True)
class Recording:
    """One rolling recording. `segments` yields each as it is stored."""

    order: Order
    should_stop: Callable[[], bool]
    keep: Callable[[Capture], Sequence[Reason]] = lambda _: ()
    """What happened that is worth keeping: of a segment, or of a time before it that is known only now."""
    told: Callable[[str, str], None] = lambda _, __: None
    """Hears who samples, and why this one."""
    dropped: Callable[[bytes, str], None] = lambda _, __: None
    """Hears of a segment that holds nothing to store, and why."""
    summing: Summing = field(default_factory=Summing)
    has_sampled: bool = False
    """Whoever could once, can again."""
    _waiting: tuple[bytes, Capture] | None = None
    _kept_last: bool = False
    _who: str = ""
    _mark: str = ""
    """Without one, what is stored is never removed."""
    _serial: int = 0
    _boot: str = ""
    _reasons: list[Reason] = field(default_factory=list)
    _raw_bytes: int = 0
    """At which a segment is ended."""
    _burst_bytes: int = 0
    """That may come at once after a look that found it smaller: the buffers of all cores."""
    _largest_bytes: int = 0
    """That a segment really became, not long ago."""
    _made_bytes: int = 0
    """The largest capture made of one."""
    _spare_bytes: int = 0
    """Of the ring, when it was looked at last."""
    _at_once: int = 1
    """Segments that lie there: of perf the next one grows while this one is stored."""
    _kernel: RunningKernel = field(default_factory=RunningKernel)
    _seen: Seen = field(default_factory=dict)
    _is_over: bool = False
    """The folder has more than it may, and that is said."""
    _lead: float = 0.0
    _lead_since: float = 0.0
    _journal: RecorderJournal | None = None

    def segments(self, seconds: float | None) -> Iterator[Segment]:
        yield from self.prepare()
        try:
            yield from self.sample(seconds)
        finally:
            self.note("ended", "")

    def prepare(self) -> Iterator[Segment]:
        """What an earlier recorder left."""
        # First of all: on a disk that is full by the time a segment is over there may be no room for it.
        with contextlib.suppress(OSError):
            self._mark = mark_of(self.order.folder, self.order.purpose)
        self._boot = _boot_id()
        sweep(self.order.folder)
        mine = self._held()
        self._serial = max((one.span.serial for one in mine), default=0)
        before = max((one.span.samples for one in mine[-3:]), default=0) * _RAW_BYTES_PER_SAMPLE
        self._expect(before or _FIRST_RAW_BYTES)
        self._lead, self._lead_since = lead_seconds(), -_STEADY_SECONDS
        self.summing.know(mine)
        self.make_room()  # it may have been given less than what an earlier one had
        yield from self._left_behind()
        self._journal = RecorderJournal(self.order.folder, self._boot, lambda: (time.time(), time.monotonic()))
        self.note("began", "")
        self.make_room()

    def _expect(self, raw_bytes: int) -> None:
        """The next segment may take twice as much as the last one, and a sixth of the ring: it ends there, so that what was made
        room for is enough."""
        most = min(MOST_SEGMENT_BYTES, self.order.most_bytes // 6)
        self._raw_bytes = min(most, max(_LEAST_RAW_BYTES, 2 * raw_bytes))

    def note(self, what: str, words: str) -> None:
        if self._journal is not None:
            self._journal.note(what, words)

    def sample(self, seconds: float | None) -> Iterator[Segment]:
        source = open_source(self.order.source, self.order.rate_hz)
        self._who, self._kernel = source.name, RunningKernel()
        self.told(source.name, source.why)
        cores = os.cpu_count() or 1
        if isinstance(source, PerfSource):
            self._at_once = 2
            self._burst_bytes = min(cores * PERF_BUFFER_BYTES, self.order.most_bytes // 6)
        else:
            self._at_once = 1
            self._burst_bytes = min(cores * OWN_BUFFER_BYTES, self.order.most_bytes // 3)
        self._bound(source)
        self.make_room()
        try:
            for path in rolling(self.order, source, self.should_stop, seconds, lambda: self._raw_bytes):
                self.has_sampled = True
                yield from self._stored(path, name_of(path))
                self._bound(source)
        finally:
            source.close()

    def _bound(self, source: Source) -> None:
        """perf writes by itself, until the kernel stops it; we stop ourselves."""
        if isinstance(source, PerfSource):
            source.most_bytes = self._segment_bytes()
        elif isinstance(source, OwnSource):
            source.most_bytes = self._raw_bytes

    def _stored(self, path: bytes, name: bytes, *, always: bool = False) -> list[Segment]:
        try:
            capture = read_capture(path, Choices() if always else Choices(kernel=self._kernel))
        except ZombiescopeError as error:
            self.dropped(path, error.why)
            self.note("dropped", error.why)
            self._expect(size_of(path))
            drop(path)
            return []
        capture, size = self._marked(capture, was_left=always), size_of(path)
        reasons = [*self.keep(capture), *([_left(capture)] if always else [])]
        self._reasons = [*self._reasons, *(one for one in reasons if one not in self._reasons)][-_MOST_REASONS:]
        stored = self._kept(path, self._wanted(name, capture, is_wanted=bool(reasons)))
        self._expect(size)
        self._largest_bytes = max(size, self._largest_bytes - self._largest_bytes // 16)
        drop(path)
        self._keep_reasons()
        self.make_room()
        return stored

    def _marked(self, capture: Capture, *, was_left: bool) -> Capture:
        self._serial += 1
        about = capture.about
        source = "profile record, found after it had died" if was_left else f"profile record ({self._who})"
        notes = read_notes(self.order.folder) if was_left else []
        boot = (notes[-1].boot if notes else "") if was_left else self._boot
        clock = (None if was_left else _on_log(about.clock)) or about.clock
        return replace(
            capture, about=about._replace(source=source, clock=clock, ring=self._mark, serial=self._serial, boot=boot)
        )

    def _wanted(self, name: bytes, capture: Capture, *, is_wanted: bool) -> list[tuple[bytes, Capture]]:
        """All of them, or with the neighbours those in which something happened."""
        if not self.order.only_around:
            return [(name, capture)]
        wanted = [self._waiting] if is_wanted and self._waiting else []
        self._waiting = None
        if is_wanted or self._kept_last:
            wanted.append((name, capture))
        else:
            self._waiting = (name, capture)
        self._kept_last = is_wanted
        return wanted

    def _kept(self, raw: bytes, wanted: list[tuple[bytes, Capture]]) -> list[Segment]:
        stored = []
        for name, capture in wanted:
            pieces, summary = list(encode(capture)), self.summing.summary_of(capture)
            made = sum(map(len, pieces)) + len(summary)
            self.make_room(made)  # on a busy machine more has come than was to
            if self._spare_bytes < made:
                drop(raw)  # what was made of it is all that there is room for
            path = self._save(raw, name, pieces)
            write_beside(path, summary)  # on a full disk it has none, and is summed up when asked
            self._made_bytes = max(made, self._made_bytes - self._made_bytes // 16)
            stored.append(Segment(path, capture))
        return stored

    def _keep_reasons(self) -> None:
        """Every capture near a moment worth keeping, however late it is known."""
        reasons = [*self._reasons, *take_asked(self.order.folder)]
        for one in self._held() if reasons else ():
            near = [reason for reason in reasons if self._is_near(one, reason) and reason not in one.reasons]
            if near:
                add_reasons(one.path, near)

    def _is_near(self, one: Held, reason: Reason) -> bool:
        if one.span.begin is None or one.span.end is None:
            return False
        around = self.order.around_seconds if reason.around is None else reason.around
        return one.span.begin - around <= reason.at <= one.span.end + around

    def make_room(self, made_bytes: int = 0) -> bool:
        """Whether there is enough for the next segment, of the ring and of the disk. `made_bytes`: of a capture that is stored
        next; 0: not known yet."""
        lead, steady = lead_seconds(), time.monotonic()
        if abs(lead - self._lead) >= JUMP_SECONDS:
            self.note("clock", f"it was set by {lead - self._lead:+.0f} s")
            self._lead, self._lead_since = lead, steady
        now = Now(time.time(), steady, self._boot, steady - self._lead_since >= _STEADY_SECONDS)
        # What is being sampled lies in the folder too, until it is stored, and for a moment what is made of it.
        here, mine = lying(self.order.folder), self._held()
        raw = max(here.growing, self._at_once * self._segment_bytes())
        made = made_bytes or max(self._made_bytes, self._raw_bytes // 3)
        room = max(0, self.order.most_bytes - here.others - raw - made)
        bounds = Bounds(room, self.order.most_age_seconds, self.order.least_free_bytes)
        stored = sum(one.size_bytes for one in mine)
        self._say_over(stored, here.growing, here.others)
        stored -= sum(one.size_bytes for one in make_way(mine, bounds, now, self.free_bytes))
        self._spare_bytes = self.order.most_bytes - stored - sum(here)
        return self.free_bytes() >= self.order.least_free_bytes

    def _segment_bytes(self) -> int:
        """That one may have by the time it is stored."""
        return max(self._raw_bytes + self._burst_bytes, self._largest_bytes)

    def _say_over(self, stored: int, growing: int, others: int) -> None:
        total, most = stored + growing + others, self.order.most_bytes
        if total > most and not self._is_over:
            self.note(
                "over",
                f"{total:,} bytes of {most:,}: {growing:,} were sampled before anybody could end the segment, "
                f"{stored:,} are captures, {others:,} others",
            )
        self._is_over = total > most and self._journal is not None

    def _held(self) -> list[Held]:
        """Of this ring."""
        return held(self.order.folder, self._mark, self._seen) if self._mark else []

    def free_bytes(self) -> int:
        try:
            found = os.statvfs(self.order.folder)
        except OSError:
            return 0
        return found.f_bavail * found.f_frsize

    def _left_behind(self) -> Iterator[Segment]:
        """A recording that was killed is an event to keep."""
        for path in left_behind(self.order.folder):
            yield from self._stored(path, name_of(path), always=True)
        self._kept_last = False

    def _save(self, raw: bytes, name: bytes, pieces: list[bytes]) -> bytes:
        """Samples as they came take many times the room: on a full disk they make way for what was made of them."""
        try:
            return store.save(self.order.folder, name, pieces)
        except ObservationError as error:
            if not is_full(error):
                raise
            drop(raw)
            return store.save(self.order.folder, name, pieces)


def is_full(error: BaseException) -> bool:
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT)


def _left(capture: Capture) -> Reason:
    return Reason("left-behind", (capture.began or 0.0) + capture.seconds, "the recorder was killed")


def _boot_id() -> str:
    try:
        return read_kernel_file(_BOOT).decode("ascii").strip()[:64]
    except OSError:
        return ""


def _on_log(clock: Clock | None) -> Clock | None:
    """The samples are on CLOCK_MONOTONIC, from which the log's clock moves away too slowly to matter within a segment."""
    lead = monotonic_lead_ns()
    return None if clock is None or lead is None else clock._replace(log_ns=clock.sample_ns - lead)
