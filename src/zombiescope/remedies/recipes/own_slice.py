# SPDX-License-Identifier: Apache-2.0
"""A unit that is needed and makes cgroups all the time gets a slice of its own: reclaim can then be aimed at it alone."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.analysis.maker import unit_maker
from zombiescope.diagnosis.workload_audit import Need
from zombiescope.facts.remedies import Remedy
from zombiescope.remedies.plan import PlaceFile, Risk, Undo
from zombiescope.remedies.situation import UNIT_FOLDER, Draft, Situation

REMEDIES = (Remedy.OWN_SLICE,)

_TEXT = (
    b"# Placed by zombiescope: what this unit leaves behind is counted and freed apart.\n[Service]\nSlice=churn.slice\n"
)


def propose(situation: Situation) -> Iterator[Draft]:
    for loop in situation.loops:
        unit = situation.unit(loop.name)
        if unit is None or loop.kind not in ("unit", "inside") or unit.need is not Need.NEEDED:
            continue
        yield Draft(
            f"slice:{unit.name}",
            f"give {unit.name} a slice of its own, from its next start on",
            PlaceFile(f"{UNIT_FOLDER}/{unit.name}.d/50-zombiescope-slice.conf".encode(), _TEXT),
            f"{unit.name} is needed ({unit.why}) and makes cgroups: {loop.why}",
            "crash-looping-unit" if loop.kind == "unit" else "looping-container",
            f"systemctl show -p Slice {unit.name}",
            Risk.LOW,
            Undo.EXACT,
            maker=unit_maker(unit.name),
        )
