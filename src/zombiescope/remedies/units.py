# SPDX-License-Identifier: Apache-2.0
"""Steps that several recipes take on a unit: stop it, and keep it from being started again.

A unit of the vendor's is masked by a link in /etc. Where /etc has the unit itself a mask has no place, so its links go.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.analysis.maker import unit_maker
from zombiescope.diagnosis.audit import UnitAudit
from zombiescope.diagnosis.need import Need
from zombiescope.facts.levers import Levers
from zombiescope.remedies.plan import PlaceLink, RemoveLinks, Risk, StopUnit, Undo
from zombiescope.remedies.situation import Draft

UNIT_FOLDER = "/etc/systemd/system"


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
