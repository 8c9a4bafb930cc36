# SPDX-License-Identifier: Apache-2.0
"""A ring of recorded captures: whose they are, which go first when there is no room, what they cover and what they do not.

Segments are counted, so that a clock that is set neither changes their order nor hides one that is missing. Needs no numpy.
"""

import contextlib
import os
import re
import secrets
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

from zombiescope.facts.names import counted, shown
from zombiescope.host.safe_open import open_regular
from zombiescope.host.whole_file import write_whole
from zombiescope.profiler.files.beside import read_beside, read_bounded, summary_path
from zombiescope.profiler.formats.capture_heading import DAMAGE, Span, span_of_file
from zombiescope.profiler.formats.summary_document import read_document, reasons_in
from zombiescope.profiler.stacks.about import Coverage, Hole, Note, Reason

SUFFIX = b".zscap"
_NUMBER = b".ring"
_FORM = re.compile(r"[0-9a-f]{16}")
_KEPT_SHARE = 0.75
"""Of the room: moments worth keeping may not take all of it."""
_KEPT_TIMES = 4.0
"""As old as that many times the age of others."""
_LOSSES = (("full", "the disk was full"), ("failed", "sampling failed"), ("dropped", "a segment was lost"))
_PAUSES = (*_LOSSES, ("rate", "the sampler was set anew"))
_ENDS = (("ended", "the recorder was stopped"), ("began", "the recorder was killed"))
_HOLE_SECONDS = 1.0
_JUMP_SECONDS = 1.0


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
    number = (read_bounded(path, 64) or b"").decode("ascii", "replace").strip()
    return number if _FORM.fullmatch(number) else None


class Held(NamedTuple):
    """One capture of a ring."""

    path: bytes
    size_bytes: int
    """With its summary."""
    written_at: float
    span: Span
    reasons: tuple[Reason, ...]

    @property
    def name(self) -> str:
        return shown(os.path.basename(self.path).removesuffix(SUFFIX))

    @property
    def weight(self) -> int:
        """0: nobody would miss it."""
        return max((reason.weight for reason in self.reasons), default=0)


_Stamp = tuple[tuple[int, int, int] | None, ...]
Seen = dict[bytes, tuple[_Stamp, "Held | None"]]
"""What was found when a capture was looked at, and how its files stood then."""


def held(folder: bytes, mark: str | None = None, seen: Seen | None = None) -> list[Held]:
    """The oldest first. `mark`: of that ring alone; None: of every ring. `seen`: of a look before; a ring may have thousands, and
    only those that changed are opened again."""
    found = []
    names: list[bytes] = []
    with contextlib.suppress(OSError):
        names = [name for name in os.listdir(folder) if name.endswith(SUFFIX)]
    before, now = seen or {}, Seen()
    for name in names:
        path = os.path.join(folder, name)
        if seen is None:
            one = look_at(path)
        else:
            stamp = (_stamp(path), _stamp(summary_path(path)))
            known = before.get(path)
            now[path] = known if known is not None and known[0] == stamp else (stamp, look_at(path))
            one = now[path][1]
        if one is not None and one.span.ring and mark in (None, one.span.ring):
            found.append(one)
    if seen is not None:
        seen.clear()
        seen.update(now)
    return sorted(found, key=lambda one: (one.span.serial, one.written_at, one.path))


def _stamp(path: bytes) -> tuple[int, int, int] | None:
    try:
        facts = os.lstat(path)
    except OSError:
        return None
    return facts.st_ino, facts.st_mtime_ns, facts.st_size


def look_at(path: bytes) -> Held | None:
    """None: it is damaged, or has gone."""
    try:
        descriptor, seen = open_regular(path)
        with os.fdopen(descriptor, "rb") as file:
            span = span_of_file(file)
    except DAMAGE:
        return None
    document = read_document(read_beside(path) or b"")
    beside = 0
    with contextlib.suppress(OSError):
        beside = os.lstat(summary_path(path)).st_size
    return Held(path, seen.st_size + beside, seen.st_mtime, span, reasons_in(document))


_NAMED = re.compile(rb"\d{8}T\d{6}Z")
_SLACK_SECONDS = 7200.0
"""How far a capture may reach beyond the moment that its name says."""


def between(folder: bytes, since: float, until: float, most: int) -> list[Held]:
    """Captures of that time, whoever stored them, by time: at most so many, those that are worth keeping first. Of those named by
    a moment only the ones near it are opened."""
    low, high = (_name_at(at) for at in (since - _SLACK_SECONDS, until + _SLACK_SECONDS))
    names: list[bytes] = []
    with contextlib.suppress(OSError):
        names = [name for name in os.listdir(folder) if name.endswith(SUFFIX)]
    near = [name for name in names if not _NAMED.match(name) or low <= name[:16] <= high]
    found = [one for name in near if (one := look_at(os.path.join(folder, name))) is not None]
    fitting = [
        one
        for one in found
        if one.span.begin is not None and one.span.begin <= until and (one.span.end or one.span.begin) >= since
    ]
    chosen = sorted(fitting, key=lambda one: (-one.weight, -(one.span.begin or 0.0)))[:most]
    return sorted(chosen, key=lambda one: one.span.begin or 0.0)


def _name_at(at: float) -> bytes:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(min(max(at, 0.0), 4e9))).encode()


class Bounds(NamedTuple):
    most_bytes: int
    most_age_seconds: float
    least_free_bytes: int = 0
    """Of the file system, for others."""


class Now(NamedTuple):
    wall: float
    steady: float
    boot: str
    is_wall_steady: bool = True
    """No age is believed by a clock that was set a moment ago, where there is no other."""


def keep_ring(folder: bytes, mark: str, bounds: Bounds, now: Now, free: Callable[[], int] | None = None) -> list[Held]:
    """Removes what is too old or too much, and returns it: what nobody would miss first, then the least of what is worth keeping,
    the oldest of each; never the newest."""
    return make_way(held(folder, mark) if mark else [], bounds, now, free)


def make_way(mine: Sequence[Held], bounds: Bounds, now: Now, free: Callable[[], int] | None = None) -> list[Held]:
    """The same of captures that were looked at already."""
    candidates = mine[:-1]
    gone = [one for one in candidates if _age(one, now) > bounds.most_age_seconds * (_KEPT_TIMES if one.weight else 1)]
    left = [one for one in candidates if one not in gone]
    total = sum(one.size_bytes for one in (*left, *mine[-1:]))
    kept = sum(one.size_bytes for one in left if one.weight)
    worth = sorted((one for one in left if one.weight), key=lambda one: one.weight)
    others = [one for one in left if not one.weight]
    while kept > _KEPT_SHARE * bounds.most_bytes and worth:
        kept -= worth[0].size_bytes
        total -= worth[0].size_bytes
        gone.append(worth.pop(0))
    order = [*others, *worth]
    while order and total > bounds.most_bytes:
        total -= order[0].size_bytes
        gone.append(order.pop(0))
    for one in gone:
        _remove(one)
    while order and free is not None and free() < bounds.least_free_bytes:
        gone.append(order[0])
        _remove(order.pop(0))
    return gone


def _age(one: Held, now: Now) -> float:
    """By the steady clock within one boot."""
    if one.span.boot == now.boot and one.span.last_ns is not None and now.boot:
        return now.steady - one.span.last_ns / 1e9
    return now.wall - one.written_at if now.is_wall_steady else 0.0


def _remove(one: Held) -> None:
    """Unless an import has taken its name meanwhile. The summary first: of a kill in between nothing is left that nobody counts."""
    with contextlib.suppress(FileNotFoundError):
        seen = os.lstat(one.path)
        if seen.st_mtime == one.written_at:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(summary_path(one.path))
            os.unlink(one.path)


def cover(captures: Sequence[Held], notes: Sequence[Note]) -> Coverage:
    known = [one for one in captures if one.span.begin is not None and one.span.end is not None]
    holes: list[Hole] = []
    jumps: list[tuple[float, float]] = []
    for before, after in pairwise(known):
        same_boot = bool(before.span.boot) and before.span.boot == after.span.boot
        moved = (after.span.lead_ns - before.span.lead_ns) / 1e9
        if same_boot and abs(moved) >= _JUMP_SECONDS:
            jumps.append((after.span.begin or 0.0, moved))
        hole = _hole(before, after, notes, same_boot=same_boot)
        if hole is not None:
            holes.append(hole)
    first, last = (known[0].span.begin, known[-1].span.end) if known else (None, None)
    seconds = sum((one.span.end or 0.0) - (one.span.begin or 0.0) for one in known)
    samples = sum(one.span.samples for one in captures)
    size = sum(one.size_bytes for one in captures)
    kept = sum(bool(one.weight) for one in captures)
    return Coverage(len(captures), size, first, last, seconds, samples, kept, tuple(holes), tuple(jumps))


def _hole(before: Held, after: Held, notes: Sequence[Note], *, same_boot: bool) -> Hole | None:
    begin, end = before.span.end or 0.0, after.span.begin or 0.0
    steady: tuple[float, float] | None = None
    if same_boot and before.span.last_ns is not None and after.span.first_ns is not None:
        steady = before.span.last_ns / 1e9, after.span.first_ns / 1e9
    seconds = steady[1] - steady[0] if steady else end - begin if end >= begin else None
    if seconds is not None and seconds < _HOLE_SECONDS:
        return None
    missing = after.span.serial - before.span.serial - 1
    if missing > 0 and before.span.serial:
        many = f"{missing:,} captures were" if missing > 1 else "a capture was"
        words = [f"{many} removed to make room, or not kept", *_told(_LOSSES, _meanwhile(before, after, notes))[:1]]
        return Hole(begin, end, seconds, "; ".join(words), steady)
    return Hole(begin, end, seconds, _why(before, after, notes, same_boot=same_boot), steady)


def _why(before: Held, after: Held, notes: Sequence[Note], *, same_boot: bool) -> str:
    """By what the recorder wrote meanwhile."""
    if not same_boot:
        return "the machine was restarted" if before.span.boot and after.span.boot else "which boot it was is not known"
    here = _meanwhile(before, after, notes)
    ends = [words for what, words in _ENDS if any(one.what == what for one in here)]
    lost = max(before.span.lost, after.span.lost)
    busy = [f"the machine gave the recorder no time: {counted(lost, 'sample')} lost"] if lost else []
    return [*_told(_PAUSES, here), *ends, *busy, "not known: the recorder wrote nothing about it"][0]


def _told(kinds: Sequence[tuple[str, str]], notes: Sequence[Note]) -> list[str]:
    """The weightiest first."""
    found = [(words, one.words) for what, words in kinds for one in notes if one.what == what]
    return [f"{words}: {more}" if more else words for words, more in found]


def _meanwhile(before: Held, after: Held, notes: Sequence[Note]) -> list[Note]:
    """Within one boot: another one has another steady clock."""
    begin, end = (before.span.last_ns or 0) / 1e9, (after.span.first_ns or 0) / 1e9
    return [one for one in notes if one.boot == before.span.boot and begin - 5 <= one.steady <= end + 5]
