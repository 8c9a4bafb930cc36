# SPDX-License-Identifier: Apache-2.0
"""Time spans as systemd.time(7) writes them: `10`, `1min 30s`, `500ms`, `infinity`."""

from __future__ import annotations

import math
import re

_UNITS = {
    "us": 1e-6, "usec": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "msec": 1e-3,
    "s": 1.0, "sec": 1.0, "second": 1.0, "seconds": 1.0, "": 1.0,
    "m": 60.0, "min": 60.0, "minute": 60.0, "minutes": 60.0,
    "h": 3600.0, "hr": 3600.0, "hour": 3600.0, "hours": 3600.0,
    "d": 86400.0, "day": 86400.0, "days": 86400.0, "w": 604800.0, "week": 604800.0, "weeks": 604800.0,
    "M": 2629800.0, "month": 2629800.0, "months": 2629800.0,
    "y": 31557600.0, "year": 31557600.0, "years": 31557600.0,
}  # fmt: skip
_PART = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)\s*([^\d\s.]*)")


def parse_time_span(text: str) -> float | None:
    """Seconds; None when systemd would not understand it either."""
    text = text.strip()
    if text == "infinity":
        return math.inf
    total, position = 0.0, 0
    while position < len(text):
        part = _PART.match(text, position)
        if part is None or part[2] not in _UNITS:
            return None
        total += float(part[1]) * _UNITS[part[2]]
        position = part.end()
    return total if text else None


def shown_span(seconds: float) -> str:
    """`10 s`, `1.5 min`, `2 h`: for a person."""
    if math.isinf(seconds):
        return "for ever"
    for size, name in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if seconds >= size:
            return f"{seconds / size:.4g} {name}"
    return f"{seconds * 1000:.4g} ms"
