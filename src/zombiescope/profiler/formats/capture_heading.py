# SPDX-License-Identifier: Apache-2.0
"""The heading of a stored capture, read without numpy: for whoever only wants to know when it was taken."""

from __future__ import annotations

import json
import struct
from typing import IO, Any, NamedTuple

from zombiescope.errors import UnknownFormatError, unknown_format

MAGIC = b"ZSCAPT01"
FAMILY = MAGIC[:6]
"""What every format of it begins with."""
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
    serial: int = 0
    """Which segment of its ring it is, from 1 on; 0: not of a ring that counts."""
    boot: str = ""
    first_ns: int | None = None
    """On the steady clock of that boot."""
    last_ns: int | None = None
    lead_ns: int = 0
    """The wall clock before the steady one: by two captures of one boot a clock that was set is seen."""


def read_heading(buffer: memoryview) -> tuple[dict[str, Any], int]:
    """And where the columns begin. Raises ValueError."""
    if len(buffer) < LEAD.size:
        raise ValueError(f"it has {len(buffer)} bytes")
    magic, length = LEAD.unpack_from(buffer)
    if magic != MAGIC and magic.startswith(FAMILY):
        raise UnknownFormatError(unknown_format(magic.decode("ascii", "replace"), MAGIC.decode()))
    if magic != MAGIC or length > MOST_HEADING_BYTES:
        raise ValueError("it does not begin as a stored capture does")
    heading = json.loads(bytes(buffer[LEAD.size : LEAD.size + length]))
    if not isinstance(heading, dict):
        raise ValueError(f"its schema is not {SCHEMA}")  # noqa: TRY004 (as for any other heading)
    if (found := str(heading.get("schema"))) != SCHEMA:
        is_later = found.startswith(SCHEMA.rpartition("/")[0])
        raise (UnknownFormatError if is_later else ValueError)(unknown_format(found[:60], SCHEMA))
    return heading, LEAD.size + length


def read_span(buffer: bytes | memoryview) -> Span:
    """Raises what a stranger's heading makes it raise: ValueError, KeyError, TypeError and their like."""
    heading, _ = read_heading(memoryview(buffer))
    time = next((each for each in heading["columns"] if each["name"] == "time"), {"rows": 0})
    about, rows, last = heading["about"], int(time["rows"]), time.get("last")
    clock, ring = about["clock"], str(about.get("ring", ""))
    serial, boot = int(about.get("serial", 0)), str(about.get("boot", ""))
    if clock is None or not rows:
        return Span(None, None, rows, ring, serial, boot)
    offset, first = int(clock["wall_ns"]) - int(clock["sample_ns"]), int(time["first"])
    last = last if isinstance(last, int) else None
    end = None if last is None else (offset + last) / 1e9
    return Span((offset + first) / 1e9, end, rows, ring, serial, boot, first, last, offset)


def span_of_file(file: IO[bytes]) -> Span:
    """Of one that is open. Raises as `read_span` does."""
    lead = file.read(LEAD.size)
    if len(lead) < LEAD.size:
        raise ValueError(f"it has {len(lead)} bytes")
    _, length = LEAD.unpack(lead)
    return read_span(lead + file.read(min(length, MOST_HEADING_BYTES)))


DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError, struct.error)
"""What reading a heading of a stranger's file may raise."""
