# SPDX-License-Identifier: Apache-2.0
"""Events that a person gives: one a line, a time (RFC 3339 or seconds since the epoch) and words; or JSON with `at` and `what`."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime

from zombiescope.errors import UsageError
from zombiescope.facts.history import Mark
from zombiescope.facts.names import shown

JOB_FAILURE = "job failure"
_LAST = 253_402_300_799.0


def parse_events(text: bytes, source: str) -> tuple[Mark, ...]:
    """Raises UsageError with the line that is none."""
    marks = []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        if not stripped or stripped.startswith(b"#"):
            continue
        mark = _json(stripped) if stripped.startswith(b"{") else _plain(stripped)
        if mark is None:
            why = f"line {number} does not begin with a time: {shown(stripped[:60])}"
            raise UsageError(f"cannot use {source}", why, "such as: 2026-01-31T14:02:00Z job 17 failed")
        marks.append(mark)
    return tuple(sorted(marks))


def _plain(line: bytes) -> Mark | None:
    stamp, _, rest = line.partition(b" ")
    at = _time(stamp.decode("ascii", "replace"))
    return None if at is None else Mark(at, JOB_FAILURE, shown(rest.strip()))


def _json(line: bytes) -> Mark | None:
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    at = said.get("at")
    moment = float(at) if isinstance(at, int | float) and not isinstance(at, bool) else _time(str(at))
    if moment is None or not 0 <= moment <= _LAST:
        return None
    return Mark(moment, JOB_FAILURE, shown(str(said.get("what", "")).encode("utf-8", "surrogatepass")))


def _time(text: str) -> float | None:
    try:
        seconds = float(text)
    except ValueError:
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            return None
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    return seconds if math.isfinite(seconds) and 0 <= seconds <= _LAST else None
