# SPDX-License-Identifier: Apache-2.0
"""Recording where numpy is not: segments stay as they were sampled, perf streams that `profile import` of a full install reads.

The names of kernel functions are kept beside them, once a recording: after the next boot nobody could tell them. What names
user functions is not: an import elsewhere says which binaries it lacked.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from zombiescope.facts.gap import Gap
from zombiescope.host.whole_file import write_whole
from zombiescope.profiler.files.rolling import Order, left_behind, name_of, rolling, writing
from zombiescope.profiler.files.sources import drop, open_source

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


class RawFiles(NamedTuple):
    """What a folder has of raw segments."""

    segments: int
    size_bytes: int
    latest: bytes
    symbols: bytes | None
    """The names of the kernel's functions that were kept when the latest was recorded."""


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
            for path in rolling(self.order, source, self.should_stop, seconds):
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
        oldest, total = time.time() - self.order.most_age_seconds, 0
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
        with open(_KALLSYMS, "rb") as file:  # noqa: PTH123 (a kernel file)
            content = file.read()
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        return Gap("frames[].name", f"the kernel's symbols cannot be read: {why}", _HINT)
    if not re.search(rb"^0*[1-9a-f]", content, re.MULTILINE):
        return Gap("frames[].name", "the kernel hides the addresses of its symbols", _HINT)
    path = os.path.join(folder, name + SYMBOLS)
    with writing(folder):
        write_whole(path, [content], make=0o700)
    return path
