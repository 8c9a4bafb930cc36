# SPDX-License-Identifier: Apache-2.0
"""Before and after, number by number: what `verify` compares."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Change(StrEnum):
    BETTER = "better"
    SAME = "same"
    WORSE = "worse"
    UNKNOWN = "unknown"


class Measure(NamedTuple):
    value: float | None
    """None: it could not be measured; the row says why."""
    seconds: float
    """How long it was watched for this."""
    source: str
    """history, window, events, prometheus, or nothing."""
    low: float | None = None
    high: float | None = None
    """In 95 of 100 cases the true rate lies between them; None where it is no rate of counted things."""
    count: int | None = None
    """Of counted things: how many."""


class Row(NamedTuple):
    what: str
    unit: str
    before: Measure
    after: Measure
    verdict: Change
    why: str = ""


NOT_MEASURED = Measure(None, 0.0, "nothing")
