# SPDX-License-Identifier: Apache-2.0
"""What a recipe is given, and what it gives back: a draft of a step, before it has a number and an expectation."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from zombiescope.analysis.looping import Loop
from zombiescope.analysis.maker import unit_maker
from zombiescope.diagnosis.audit import Audit, UnitAudit
from zombiescope.facts.cgroups import PAGE_BYTES_UNTOLD
from zombiescope.facts.pods import PodsSeen
from zombiescope.facts.reaping import Levers
from zombiescope.remedies.choice import Choices, Lever
from zombiescope.remedies.plan import Change, Risk, Undo


class Activity(NamedTuple):
    """What is still going on: who makes zombies now, and since when we look."""

    makers: tuple[str, ...] = ()
    """Known to have made zombies, beside the units that loop now."""
    growing: tuple[tuple[str, str | None], ...] = ()
    """Makers that were seen to leave more, most first, each with the timer that starts it."""
    looping: tuple[str, ...] = ()
    """Makers whose units were seen to loop and have left zombies, most first."""
    pods: PodsSeen | None = None
    """Pods of this node, and which of them loop; None where there are none."""
    since: float | None = None
    """When the window began, in seconds since the epoch: what holds a zombie born since is still in use."""


AT_REST = Activity()


class Situation(NamedTuple):
    present: frozenset[str]
    """Ids of the findings that are there."""
    choices: Choices
    """Nothing in it where the zombies could not be seen one by one, or are too few to bother."""
    audit: Audit | None
    levers: Levers
    activity: Activity = AT_REST
    left: Mapping[str, int] = MappingProxyType({})
    """Zombies of all makers, also of those the plan is not about."""
    still_written: frozenset[bytes] = frozenset()
    """Files that a process has open or mapped, or that hold a zombie born while we looked: they may be written now."""
    page_bytes: int = PAGE_BYTES_UNTOLD

    @property
    def loops(self) -> list[Loop]:
        """What loops now: who leaves most first, whoever shouts louder."""
        loops = self.audit.loops if self.audit else ()
        growing = {maker for maker, _ in self.activity.growing}
        services = [loop for loop in loops if loop.kind != "pod"]  # a cluster's are its own: `activity.pods`
        return sorted(services, key=lambda loop: (unit_maker(loop.name) not in growing, -self.left_by(loop)))

    def left_by(self, loop: Loop) -> int:
        unit = self.unit(loop.name)
        return self.left.get(unit_maker(loop.name), (unit.zombies if unit else None) or 0)

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
    maker: str = ""
    """Whom it is against."""
    instead_of: tuple[str, ...] = ()
    """Names of drafts that free the same zombies at a higher price."""
    pods: frozenset[str] = frozenset()
    """Uids of pods that end with it, and their files with them."""
