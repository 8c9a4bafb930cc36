# SPDX-License-Identifier: Apache-2.0
"""Whether a node is to be called under pressure, in a cluster's words: status, a reason that can be searched, a message.

Pressure is a stock above its limits, or its measured harm; growth alone is not, nor is a workload that loops. It changes only when
the other answer has held without a break.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from zombiescope.diagnosis.engine import Diagnosis
from zombiescope.diagnosis.finding import Finding, Verdict
from zombiescope.diagnosis.thresholds import Severity

CONDITION = "ZombieMemcgPressure"
_REASONS = {
    "zombie-population": "ZombieMemcgAboveLimit",
    "costly-sweep": "CostlyMemcgSweep",
    "costly-reclaim-walk": "CostlyMemcgReclaim",
}
_NONE, _UNKNOWN = "NoZombieMemcgPressure", "ZombieMemcgNotCounted"
REASONS = (*_REASONS.values(), _NONE, _UNKNOWN)
_COUNTED = "zombie-population"
_ORDER = {Severity.CRITICAL: 0, Severity.WARNING: 1}
_MOST_MESSAGE = 512


class Status(StrEnum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(NamedTuple):
    status: Status
    reason: str
    message: str


def judge_condition(diagnosis: Diagnosis, makers: Mapping[str, int] | None = None) -> Condition:
    """`makers`: zombies of each, where that is known."""
    found = [each for each in diagnosis.findings if each.id in _REASONS]
    pressing = [each for each in found if each.verdict is Verdict.PRESENT and each.severity in _ORDER]
    if pressing:
        worst = min(pressing, key=lambda each: (_ORDER[each.severity], list(_REASONS).index(each.id)))
        return Condition(Status.TRUE, _REASONS[worst.id], _message(worst, makers or {}))
    counted = next((each for each in found if each.id == _COUNTED), None)
    if counted is None or counted.verdict is Verdict.UNKNOWN:
        why = counted.summary if counted else "not looked at yet"
        return Condition(Status.UNKNOWN, _UNKNOWN, why[:_MOST_MESSAGE])
    return Condition(Status.FALSE, _NONE, counted.summary[:_MOST_MESSAGE])


def _message(finding: Finding, makers: Mapping[str, int]) -> str:
    most = max(makers, key=lambda name: (makers[name], name), default="")
    made = f"; most of them made by {most} ({makers[most]:,})" if most and makers[most] else ""
    return f"{finding.summary}{made}"[:_MOST_MESSAGE]


class Held:
    """What was the same for long enough. Seconds are those of a clock that only goes forward."""

    def __init__(self) -> None:
        self._seen: Condition | None = None
        self._since = 0.0
        self.held: Condition | None = None

    def take(self, seen: Condition, clock: float, hold_seconds: float) -> Condition | None:
        """None until anything has held once. A new reason or message of the same status needs no waiting."""
        if self._seen is None or self._seen.status is not seen.status:
            self._since = clock
        self._seen = seen
        if clock - self._since >= hold_seconds or (self.held and self.held.status is seen.status):
            self.held = seen
        return self.held
