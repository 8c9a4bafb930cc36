# SPDX-License-Identifier: Apache-2.0
"""What the rules are given: the snapshots of one window in order, their numbers, and the thresholds."""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.analysis.growth import Growth
from zombiescope.analysis.scan import Scan
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.facts.cores import CoresSeen
from zombiescope.facts.gap import Gap
from zombiescope.facts.snapshot import Snapshot

NO_HISTORY = Gap(
    "growth", "no history of this host is kept", "zombiescope agent keeps one; zombiescope history shows it"
)
NOT_WATCHED = Gap("cores", "the cores were not watched", "zombiescope cores --seconds 10")


class Observation(NamedTuple):
    snapshot: Snapshot
    scan: Scan


class Case(NamedTuple):
    observations: tuple[Observation, ...]
    thresholds: Thresholds
    growth: Growth | Gap = NO_HISTORY
    cores: CoresSeen | Gap = NOT_WATCHED

    @property
    def first(self) -> Observation:
        return self.observations[0]

    @property
    def last(self) -> Observation:
        return self.observations[-1]
