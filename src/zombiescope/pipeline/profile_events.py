# SPDX-License-Identifier: Apache-2.0
"""What happened on this machine while a profile was taken: marks for the page, and which segments of a recording are worth keeping.

By a kernel log given, by what the agent wrote into its history, and by looks of our own. The profiler is told when, not how.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import NamedTuple

from zombiescope import pipeline
from zombiescope.analysis.core_saturation import parse_causes
from zombiescope.analysis.nic_resets import derive_resets
from zombiescope.config import thresholds_for
from zombiescope.diagnosis.finding import Verdict
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.errors import ObservationError, ZombiescopeError, reason_of
from zombiescope.facts.gap import Gap
from zombiescope.facts.kernel_log import LogEvent
from zombiescope.facts.names import shown
from zombiescope.history.reader import remember
from zombiescope.host.live import LiveHost
from zombiescope.host.safe_open import open_regular, read_shipped
from zombiescope.probes.kernel_messages import parse_line
from zombiescope.probes.readers.node import read_identity, read_node_image, read_node_zone
from zombiescope.watching.nics import FollowedNicsWatch


class NodeLabels(NamedTuple):
    """Empty where nothing tells."""

    node: str
    zone: str
    image: str
    kernel: str


def labels_here() -> NodeLabels:
    host = LiveHost()
    identity = read_identity(host)
    return NodeLabels(identity.name or "", read_node_zone(host), read_node_image(host), identity.kernel or "")


_STAMPED = re.compile(rb"\s*(?:<\d+>)?\[\s*(\d+\.\d+)\]\s?(.*)")
_MOST_LOG_BYTES = 64 << 20
_MOST_MARKS = 500
_NO_CLOCK = "the capture does not say when it was taken"
_CLOCK_HINT = "record with zombiescope profile record, or perf record -k CLOCK_MONOTONIC"


class Span(NamedTuple):
    """Of a capture, in seconds."""

    began: float
    """Since the epoch."""
    began_on_log: float
    """On the clock of the kernel's log."""
    seconds: float


class ProfileMark(NamedTuple):
    kind: str
    seconds: float
    """After the capture's first sample."""
    label: str


class Marks(NamedTuple):
    marks: tuple[ProfileMark, ...]
    gaps: tuple[Gap, ...]


def marks_of(span: Span | None, state: bytes | None, kernel_log: bytes | None) -> Marks:
    if state is None and kernel_log is None:
        return Marks((), ())
    if span is None:
        return Marks((), (Gap("marks", _NO_CLOCK, _CLOCK_HINT),))
    found: list[ProfileMark] = []
    gaps: list[Gap] = []
    if kernel_log is not None:
        found += [mark for mark in _resets(kernel_log, span.began_on_log) if 0 <= mark.seconds <= span.seconds]
    if state is not None:
        more, gaps = _happenings(state, span.began, span.began + span.seconds)
        found += more
    found.sort(key=lambda mark: mark.seconds)
    if len(found) > _MOST_MARKS:
        gaps.append(Gap("marks", f"{len(found) - _MOST_MARKS:,} more marks are not shown"))
    return Marks(tuple(found[:_MOST_MARKS]), tuple(gaps))


def _resets(path: bytes, first: float) -> list[ProfileMark]:
    """A log with the kernel's own stamps, as `dmesg` prints it: seconds on its own clock."""
    try:
        with os.fdopen(open_regular(path, follow=True)[0], "rb") as file:
            lines = file.read(_MOST_LOG_BYTES).split(b"\n")
    except OSError as error:
        raise ObservationError(
            f"cannot read the kernel log ({shown(path)})", reason_of(error), "dmesg > FILE"
        ) from error
    events: list[LogEvent] = []
    for line in lines:
        stamped = _STAMPED.fullmatch(line)
        event = parse_line(float(stamped[1]), stamped[2]) if stamped else None
        if event is not None:
            events.append(event)
    return [
        ProfileMark("nic-reset", reset.at - first, f"{reset.device} was reset: {reset.reason.value}")
        for reset in derive_resets(events)
    ]


def _happenings(folder: bytes, since: float, until: float) -> tuple[list[ProfileMark], list[Gap]]:
    remembered = remember(os.fsencode(folder), since, until, frozenset())
    marks = [
        ProfileMark(shown(each.what.encode()), each.at - since, shown(each.detail.encode()))
        for each in remembered.happenings
    ]
    return marks, list(remembered.gaps)


class Event(NamedTuple):
    """Something for which a capture is worth keeping."""

    kind: str
    at: float
    """Seconds since the epoch."""
    words: str


_REMEMBERED = {"saturated-core": "core-saturated", "nic-reset": "nic-reset", "finding": "finding-present"}
"""What the agent calls it in its history."""
AROUND = tuple(_REMEMBERED)
_KINDS = {what: kind for kind, what in _REMEMBERED.items()}
_SEVERE = (Severity.OK, Severity.UNKNOWN, Severity.WARNING, Severity.CRITICAL)
Watch = Callable[[Span | None], list[Event]]


def keeper(
    around: tuple[str, ...], state: bytes | None = None, *, believe_users: bool = False, scans: bool = True
) -> Watch:
    """A function that is asked after each segment what happened. `state`: what the agent saw counts too. A saturated core is seen
    in the segment itself: whoever reads it says so. Without `scans`, findings are left to the agent.

    A finding is an event when it comes, not as long as it is there: a sick machine would keep everything.
    """
    watches: list[Watch] = [
        *([_Resets(believe_users=believe_users).since_last] if "nic-reset" in around else []),
        *([_Findings(_findings).since_last] if "finding" in around and scans else []),
    ]
    if state is not None and around:
        watches.append(_Remembered(state, frozenset(_REMEMBERED[event] for event in around)).since_last)
    return lambda span: [event for watch in watches for event in watch(span)]


class _Resets:
    def __init__(self, *, believe_users: bool) -> None:
        self._watch = FollowedNicsWatch(LiveHost(), believe_users=believe_users)

    def since_last(self, span: Span | None) -> list[Event]:
        """By the kernel's log, or by what the drivers count where it may not be read."""
        del span
        self._watch.look()
        return [Event("nic-reset", each.at, f"{shown(each.device.encode())} was reset") for each in self._watch.ended]


class _Remembered:
    """What the agent wrote into its history. It may write after a segment has ended: the one before is looked at again."""

    def __init__(self, folder: bytes, kinds: frozenset[str]) -> None:
        self._folder, self._kinds = folder, kinds
        self._seen_to: float | None = None
        self._known: set[tuple[float, str]] = set()

    def since_last(self, span: Span | None) -> list[Event]:
        if span is None:
            return []
        since = span.began if self._seen_to is None else min(span.began, self._seen_to)
        self._seen_to = span.began
        try:
            happenings = remember(self._folder, since, span.began + span.seconds, frozenset()).happenings
        except ObservationError:
            return []  # the agent has not begun yet
        found = {(each.at, each.what): each for each in happenings if each.what in self._kinds}
        new = [each for key, each in found.items() if key not in self._known]
        self._known = set(found)
        return [Event(_KINDS[each.what], each.at, shown(each.detail.encode())) for each in new]


class _Findings:
    """Those of a scan that were not there at the look before, or not as severe."""

    def __init__(self, look: Callable[[], dict[str, Severity] | None]) -> None:
        self._look = look
        self._known = look() or {}

    def since_last(self, span: Span | None) -> list[Event]:
        found = self._look()
        if found is None:  # nothing could be seen: what comes after is compared with what was seen last
            return []
        known, self._known = self._known, found
        at = 0.0 if span is None else span.began + span.seconds
        worse = [one for one, how in found.items() if _SEVERE.index(how) > _SEVERE.index(known.get(one, Severity.OK))]
        return [Event("finding", at, f"{one}: {found[one].value}") for one in worse]


def _findings() -> dict[str, Severity] | None:

    try:
        found = pipeline.scan.scan(
            LiveHost(), with_bytes=False, thresholds=thresholds_for(None, is_live=True)
        ).diagnosis.findings
    except ZombiescopeError:
        return None
    return {one.id: one.severity for one in found if one.verdict is Verdict.PRESENT}


def cause_words() -> tuple[Callable[[str], str | None], Callable[[str], str]]:
    """What a kernel function works for, and what that is called in a sentence."""
    causes = parse_causes(read_shipped("kernel_causes.toml"))
    return causes.of, lambda cause: causes.words.get(cause, cause)
