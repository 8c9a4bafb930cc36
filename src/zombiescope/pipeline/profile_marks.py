# SPDX-License-Identifier: Apache-2.0
"""What else happened while a capture was taken: resets of cards by a kernel log given, and what the agent wrote into its history.

A capture knows one moment on three clocks, so that both lie on its own axis.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

from zombiescope.analysis.nic_resets import derive_resets
from zombiescope.errors import ObservationError
from zombiescope.facts.gap import Gap
from zombiescope.facts.kernel_log import LogEvent
from zombiescope.facts.names import shown
from zombiescope.host.safe_open import open_regular
from zombiescope.probes.kernel_messages import parse_line
from zombiescope.profiling.capture import Capture

_STAMPED = re.compile(rb"\s*(?:<\d+>)?\[\s*(\d+\.\d+)\]\s?(.*)")
_MOST_LOG_BYTES = 64 << 20
_MOST_MARKS = 500
_NO_CLOCK = "the capture does not say when it was taken"
_CLOCK_HINT = "record with zombiescope profile record, or perf record -k CLOCK_MONOTONIC"


class Mark(NamedTuple):
    kind: str
    seconds: float
    """After the capture's first sample."""
    label: str


class Marks(NamedTuple):
    found: tuple[Mark, ...]
    gaps: tuple[Gap, ...]


def marks_of(capture: Capture, state: bytes | None, kernel_log: bytes | None) -> Marks:
    if state is None and kernel_log is None:
        return Marks((), ())
    clock = capture.about.clock
    if clock is None or not len(capture.time):
        return Marks((), (Gap("marks", _NO_CLOCK, _CLOCK_HINT),))
    first = int(capture.time[0])
    began = (clock.wall_ns + first - clock.sample_ns) / 1e9
    found: list[Mark] = []
    gaps: list[Gap] = []
    if kernel_log is not None:
        began_on_log = clock.on_log(first) / 1e9
        found += [mark for mark in _resets(kernel_log, began_on_log) if 0 <= mark.seconds <= capture.seconds]
    if state is not None:
        more, gaps = _happenings(state, began, began + capture.seconds)
        found += more
    found.sort(key=lambda mark: mark.seconds)
    if len(found) > _MOST_MARKS:
        gaps.append(Gap("marks", f"{len(found) - _MOST_MARKS:,} more marks are not shown"))
    return Marks(tuple(found[:_MOST_MARKS]), tuple(gaps))


def _resets(path: bytes, first: float) -> list[Mark]:
    """A log with the kernel's own stamps, as `dmesg` prints it: seconds on its own clock."""
    try:
        with os.fdopen(open_regular(path, follow=True)[0], "rb") as file:
            lines = file.read(_MOST_LOG_BYTES).split(b"\n")
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise ObservationError(f"cannot read the kernel log ({shown(path)})", why, "dmesg > FILE") from error
    events: list[LogEvent] = []
    for line in lines:
        stamped = _STAMPED.fullmatch(line)
        event = parse_line(float(stamped[1]), stamped[2]) if stamped else None
        if event is not None:
            events.append(event)
    return [
        Mark("nic-reset", reset.at - first, f"{reset.device} was reset: {reset.reason.value}")
        for reset in derive_resets(events)
    ]


def _happenings(folder: bytes, since: float, until: float) -> tuple[list[Mark], list[Gap]]:
    from zombiescope.history.reader import remember  # noqa: PLC0415 (a page without a history does not pay for it)

    remembered = remember(os.fsencode(folder), since, until, frozenset())
    marks = [
        Mark(shown(each.what.encode()), each.at - since, shown(each.detail.encode())) for each in remembered.happenings
    ]
    return marks, list(remembered.gaps)
