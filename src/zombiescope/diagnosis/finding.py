# SPDX-License-Identifier: Apache-2.0
"""A finding: what is judged, the verdict, and the evidence with its source and time."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from zombiescope.diagnosis.thresholds import Severity


class Verdict(StrEnum):
    PRESENT = "present"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class Role(StrEnum):
    SYMPTOM = "symptom"
    MECHANISM = "mechanism"
    ORIGIN = "origin"


class Evidence(NamedTuple):
    fact: str
    value: float | str | None
    unit: str
    source: str
    at: float
    """Seconds since the epoch."""


class Finding(NamedTuple):
    id: str
    verdict: Verdict
    severity: Severity
    role: Role
    title: str
    summary: str
    evidence: tuple[Evidence, ...]
    explained_by: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
