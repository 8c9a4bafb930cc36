# SPDX-License-Identifier: Apache-2.0
"""One node at one moment: every fact that was looked for, or the gap where it would be."""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.facts.cgroups import Census, EmptyDirectories, HandedOn, Hierarchy, Residuals, Sweep
from zombiescope.facts.gap import Gap
from zombiescope.facts.node import Identity, Shape

NOT_ASKED = Gap("handed_on", "only scan and doctor look for it", "zombiescope scan")


class Snapshot(NamedTuple):
    taken_at: float
    """Seconds since the epoch, by the clock of the machine that was looked at."""
    source: str
    """What was looked at, as a person calls it."""
    identity: Identity
    shape: Shape
    hierarchy: Hierarchy | Gap
    census: Census | Gap
    residuals: Residuals | Gap
    sweep: Sweep | Gap
    empty_directories: EmptyDirectories | Gap
    handed_on: HandedOn | Gap = NOT_ASKED
