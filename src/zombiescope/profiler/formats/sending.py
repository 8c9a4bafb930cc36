# SPDX-License-Identifier: Apache-2.0
"""What goes along with a profile that is sent: whose it is, by labels, and a number that is the same however often it is sent."""

from __future__ import annotations

import hashlib
from typing import NamedTuple
from uuid import UUID

from zombiescope.profiler.stacks.capture import Capture, Selection, row_numbers, span_ns

SCOPE = "zombiescope"


class Sender(NamedTuple):
    service: str
    version: str
    labels: tuple[tuple[str, str], ...] = ()


def profile_id(capture: Capture, selection: Selection) -> UUID:
    """By what is in it: a server can tell that it has it already."""
    begin, length = span_ns(capture, selection)
    rows = row_numbers(capture, selection)
    about = capture.about
    content = hashlib.sha256(repr((about.host, about.boot, about.clock, begin, length)).encode())
    for column in (capture.time, capture.cpu, capture.tid):
        content.update(column[rows].tobytes())
    return UUID(bytes=content.digest()[:16], version=5)
