# SPDX-License-Identifier: Apache-2.0
"""What a recipe is given, and what it gives back: a draft of a step, before it has a number and an expectation."""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.diagnosis.audit import Audit, UnitAudit
from zombiescope.facts.levers import Levers
from zombiescope.facts.node import PAGE_BYTES_UNTOLD
from zombiescope.remedies.choice import Choices, Lever
from zombiescope.remedies.plan import Change, Risk, Undo


class Situation(NamedTuple):
    present: frozenset[str]
    """Ids of the findings that are there."""
    choices: Choices
    """Nothing in it where the zombies could not be seen one by one, or are too few to bother."""
    audit: Audit | None
    levers: Levers
    page_bytes: int = PAGE_BYTES_UNTOLD

    def unit(self, name: str) -> UnitAudit | None:
        units = self.audit.units if self.audit else ()
        return next((unit for unit in units if unit.name == name), None)


class Draft(NamedTuple):
    name: str
    title: str
    change: Change
    why: str
    finding: str
    check: str
    risk: Risk
    undo: Undo
    needs_consent: bool = False
    pulls: frozenset[Lever] = frozenset()
    """The levers of zombies that this step pulls."""
