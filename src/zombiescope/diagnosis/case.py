# SPDX-License-Identifier: Apache-2.0
"""What the rules are given: the snapshots of one window in order, their numbers, and the thresholds."""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.analysis.scan import Scan
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.facts.snapshot import Snapshot


class Observation(NamedTuple):
    snapshot: Snapshot
    scan: Scan


class Case(NamedTuple):
    observations: tuple[Observation, ...]
    thresholds: Thresholds

    @property
    def first(self) -> Observation:
        return self.observations[0]

    @property
    def last(self) -> Observation:
        return self.observations[-1]
