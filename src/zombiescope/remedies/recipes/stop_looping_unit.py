# SPDX-License-Identifier: Apache-2.0
"""A unit that is restarted over and over, and that nothing is known to need: stop it. It is kept from starting again where it
is known that nothing needs it, or where it loops inside itself, where no start limit counts."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.diagnosis.workload_audit import Need
from zombiescope.facts.names import zombies_said
from zombiescope.facts.remedies import Remedy
from zombiescope.remedies.situation import Draft, Situation, stop_and_keep_stopped

REMEDIES = (Remedy.STOP_UNIT,)

FINDINGS = {"unit": "crash-looping-unit", "inside": "looping-container"}


def propose(situation: Situation) -> Iterator[Draft]:
    for loop in situation.loops:
        unit = situation.unit(loop.name)
        if unit is None or loop.kind not in FINDINGS or unit.need is Need.NEEDED:
            continue
        left = f" and has left {zombies_said(unit.zombies)}" if unit.zombies else ""
        why = f"{loop.name}: {loop.why}{left}; {unit.why}"
        steps = stop_and_keep_stopped(unit, situation.levers, FINDINGS[loop.kind], why)
        if loop.kind == "unit" and unit.need is Need.UNKNOWN:  # its restarts are limited: whoever starts it again may
            steps = (step for step in steps if step.name.startswith("stop:"))
        yield from steps
