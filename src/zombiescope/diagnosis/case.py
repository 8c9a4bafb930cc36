# SPDX-License-Identifier: Apache-2.0
"""What the rules are given: the snapshots of one window in order, their numbers, and the thresholds."""

from __future__ import annotations

from dataclasses import dataclass

from zombiescope.analysis.scan import Scan
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.facts.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Observation:
    snapshot: Snapshot
    scan: Scan


@dataclass(frozen=True, slots=True)
class Case:
    observations: tuple[Observation, ...]
    thresholds: Thresholds

    @property
    def first(self) -> Observation:
        return self.observations[0]

    @property
    def last(self) -> Observation:
        return self.observations[-1]
