# SPDX-License-Identifier: Apache-2.0
"""A finding: what is judged, the verdict, and the evidence with its source and time."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from zombiescope.diagnosis.thresholds import Severity


class Verdict(StrEnum):
    PRESENT = "present"
    ABSENT = "absent"
    UNKNOWN = "unknown"


class Role(StrEnum):
    SYMPTOM = "symptom"
    MECHANISM = "mechanism"
    ORIGIN = "origin"


@dataclass(frozen=True, slots=True)
class Evidence:
    fact: str
    value: float | str | None
    unit: str
    source: str
    at: float
    """Seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Finding:
    id: str
    verdict: Verdict
    severity: Severity
    role: Role
    title: str
    summary: str
    evidence: tuple[Evidence, ...]
    explained_by: tuple[str, ...] = ()
    remedies: tuple[str, ...] = ()
