# SPDX-License-Identifier: Apache-2.0
"""What a recipe is given, and what it gives back: a draft of a step, before it has a number and an expectation. And the steps
that several recipes take: on a unit that is stopped and kept from being started again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from zombiescope.analysis.looping import Loop
from zombiescope.analysis.maker import unit_maker
from zombiescope.diagnosis.audit import Audit, UnitAudit
from zombiescope.diagnosis.workload_audit import Need
from zombiescope.facts.cgroups import PAGE_BYTES_UNTOLD, Hierarchy, HierarchyVersion
from zombiescope.facts.pods import PodsSeen
from zombiescope.facts.reaping import Levers
from zombiescope.facts.remedies import Remedy
from zombiescope.remedies.choice import Choices, Lever, least_harm_first, may_be_deleted
from zombiescope.remedies.plan import Change, PlaceLink, ReclaimWay, RemoveLinks, Risk, StopUnit, Undo


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


_OF_A_CGROUP = (ReclaimWay.MEMORY_RECLAIM, ReclaimWay.MEMORY_HIGH, ReclaimWay.FORCE_EMPTY)


def reclaim_file(levers: Levers, hierarchy: Hierarchy, parent: bytes) -> tuple[ReclaimWay, tuple[bytes, ...]] | None:
    """The root of v1 has none of its own: the nodes' files serve it, where they are."""
    if hierarchy.version is HierarchyVersion.V1 and parent == b"/":
        return (ReclaimWay.NODE, levers.node_reclaim) if levers.node_reclaim else None
    for way in _OF_A_CGROUP:
        place = hierarchy.place(parent, way.value.encode())
        if place in levers.control_files:
            return way, (place,)
    return None


_MOST_FOLDERS = 20


def unused_by_folder(situation: Situation) -> list[tuple[bytes, list[Lever]]]:
    """Most files first. What is still being written is left out, whatever it holds."""
    folders: dict[bytes, list[Lever]] = defaultdict(list)
    in_use = situation.still_written | situation.levers.files_in_use.keys()
    for lever in situation.choices.of(Remedy.DELETE_FILE):
        if may_be_deleted(lever.target) and lever.target not in in_use:
            folders[lever.target.rpartition(b"/")[0]].append(lever)
    most = sorted(folders.items(), key=lambda item: (-len(item[1]), item[0]))[:_MOST_FOLDERS]
    return [(folder, sorted(levers, key=least_harm_first)) for folder, levers in most]


UNIT_FOLDER = "/etc/systemd/system"
"""A unit of the vendor's is masked by a link there. Where it has the unit itself a mask has no place, so its links go."""


def stop_and_keep_stopped(unit: UnitAudit, levers: Levers, finding: str, why: str) -> Iterator[Draft]:
    risk = Risk.LOW if unit.need is Need.UNNEEDED else Risk.MEDIUM
    consent = unit.need is not Need.UNNEEDED
    if levers.has_systemd:
        yield Draft(
            f"stop:{unit.name}",
            f"stop {unit.name} and wait until it is gone",
            StopUnit(unit.name),
            why,
            finding,
            f"systemctl is-active {unit.name}",
            risk,
            Undo.RESTART,
            consent,
            maker=unit_maker(unit.name),
        )
    yield from keep_from_starting(unit, levers, finding, why)


def keep_from_starting(unit: UnitAudit, levers: Levers, finding: str, why: str) -> Iterator[Draft]:
    risk = Risk.LOW if unit.need is Need.UNNEEDED else Risk.MEDIUM
    consent = unit.need is not Need.UNNEEDED
    maker = unit_maker(unit.name)
    check = f"systemctl is-enabled {unit.name}"
    if unit.path and not unit.path.startswith((f"{UNIT_FOLDER}/", "/run/")):
        link = PlaceLink(f"{UNIT_FOLDER}/{unit.name}".encode(), b"/dev/null")
        title = f"mask {unit.name}, so that nothing starts it"
        yield Draft(f"mask:{unit.name}", title, link, why, finding, check, risk, Undo.EXACT, consent, maker=maker)
        return
    links = levers.enabling_links.get(unit.name, ())
    if links:
        title = f"disable {unit.name}, so that no boot starts it"
        yield Draft(
            f"disable:{unit.name}",
            title,
            RemoveLinks(links),
            why,
            finding,
            check,
            risk,
            Undo.EXACT,
            consent,
            maker=maker,
        )
