# SPDX-License-Identifier: Apache-2.0
"""The heading of a stored capture, read without numpy: for whoever only wants to know when it was taken."""

from __future__ import annotations

import json
import struct
from typing import Any, NamedTuple

MAGIC = b"ZSCAPT01"
SCHEMA = "zombiescope.capture/1"
LEAD = struct.Struct("<8sI")
MOST_HEADING_BYTES = 16 << 20


class Span(NamedTuple):
    begin: float | None
    """Seconds since the epoch, where the capture tells."""
    end: float | None
    samples: int
    ring: str
    """The mark of the rolling recording that stored it."""


def read_heading(buffer: memoryview) -> tuple[dict[str, Any], int]:
    """And where the columns begin. Raises ValueError."""
    if len(buffer) < LEAD.size:
        raise ValueError(f"it has {len(buffer)} bytes")
    magic, length = LEAD.unpack_from(buffer)
    if magic != MAGIC or length > MOST_HEADING_BYTES:
        raise ValueError("it does not begin as a stored capture does")
    heading = json.loads(bytes(buffer[LEAD.size : LEAD.size + length]))
    if not isinstance(heading, dict) or heading.get("schema") != SCHEMA:
        raise ValueError(f"its schema is not {SCHEMA}")
    return heading, LEAD.size + length


def read_span(buffer: bytes | memoryview) -> Span:
    """Raises what a stranger's heading makes it raise: ValueError, KeyError, TypeError and their like."""
    heading, _ = read_heading(memoryview(buffer))
    time = next((each for each in heading["columns"] if each["name"] == "time"), {"rows": 0})
    about, rows, last = heading["about"], int(time["rows"]), time.get("last")
    clock, ring = about["clock"], str(about.get("ring", ""))
    if clock is None or not rows:
        return Span(None, None, rows, ring)
    offset = int(clock["wall_ns"]) - int(clock["sample_ns"])
    end = (offset + int(last)) / 1e9 if isinstance(last, int) else None
    return Span((offset + int(time["first"])) / 1e9, end, rows, ring)
