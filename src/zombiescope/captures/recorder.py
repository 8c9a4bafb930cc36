# SPDX-License-Identifier: Apache-2.0
"""Rolling captures: sample, write what comes to a file at once, and make a stored capture of it when the segment is over.

The file being written is a perf stream of its own: what a crash leaves behind is imported by the next recording.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from zombiescope.captures import store
from zombiescope.captures.reading import Choices, read_capture
from zombiescope.captures.stream_head import head
from zombiescope.errors import ObservationError, ZombiescopeError
from zombiescope.facts.names import shown
from zombiescope.kernel.perf_events import Sampler
from zombiescope.profiling.capture import Capture
from zombiescope.profiling.capture_codec import encode

GROWING = b".recording"
_DRAIN_SECONDS = 0.5
_MOST_SEGMENT_BYTES = 512 << 20


@dataclass(frozen=True, slots=True)
class Order:
    folder: bytes
    rate_hz: int = 99
    segment_seconds: float = 120.0
    most_bytes: int = 1 << 30
    most_age_seconds: float = 7 * 86_400.0


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
    _waiting: tuple[bytes, Capture] | None = None
    _kept_last: bool = False

    def segments(self, seconds: float | None) -> Iterator[Segment]:
        yield from self._left_behind()
        sampler = Sampler(self.order.rate_hz)
        try:
            sampler.open(_online_cpus())
        except OSError as error:
            raise ObservationError(
                "cannot sample the processors (perf_event_open)",
                (error.strerror or str(error)).lower(),
                "run as root or with CAP_PERFMON; see kernel.perf_event_paranoid",
            ) from error
        try:
            ends = None if seconds is None else time.monotonic() + seconds
            while not self._is_over(ends):
                yield from self._segment(sampler, ends)
        finally:
            sampler.close()

    def _is_over(self, ends: float | None) -> bool:
        return self.should_stop() or (ends is not None and time.monotonic() >= ends)

    def _segment(self, sampler: Sampler, ends: float | None) -> list[Segment]:
        name = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()).encode()
        path = os.path.join(self.order.folder, name + GROWING)
        try:
            os.makedirs(self.order.folder, mode=0o700, exist_ok=True)
            self._write(path, sampler, ends)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise ObservationError(
                f"cannot write the recording ({shown(path)})", why, "choose --captures elsewhere"
            ) from error
        return self._stored(path, name)

    def _write(self, path: bytes, sampler: Sampler, ends: float | None) -> None:
        over = time.monotonic() + self.order.segment_seconds
        written = 0
        with open(path, "wb", buffering=0) as file:  # noqa: PTH123 (bytes are the name)
            file.write(b"".join(head(sampler.attr)))
            while time.monotonic() < over and written < _MOST_SEGMENT_BYTES and not self._is_over(ends):
                time.sleep(_DRAIN_SECONDS)
                content = b"".join(sampler.drain())
                file.write(content)
                written += len(content)

    def _stored(self, path: bytes, name: bytes) -> list[Segment]:
        try:
            capture = read_capture(path, Choices())
        except ZombiescopeError:
            self._forget(path)
            return []
        is_wanted = self.keep(capture)
        wanted = [self._waiting] if is_wanted and self._waiting else []
        self._waiting = None
        if is_wanted or self._kept_last:
            wanted.append((name, capture))
        else:
            self._waiting = (name, capture)
        self._kept_last = is_wanted
        stored = [Segment(store.save(self.order.folder, one, encode(taken)), taken) for one, taken in wanted]
        self._forget(path)
        store.keep_ring(self.order.folder, self.order.most_bytes, time.time() - self.order.most_age_seconds)
        return stored

    def _left_behind(self) -> Iterator[Segment]:
        """Segments of a recording that was killed."""
        with contextlib.suppress(FileNotFoundError):
            for name in sorted(os.listdir(self.order.folder)):
                if name.endswith(GROWING):
                    yield from self._stored(os.path.join(self.order.folder, name), name[: -len(GROWING)])

    def _forget(self, path: bytes) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


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
