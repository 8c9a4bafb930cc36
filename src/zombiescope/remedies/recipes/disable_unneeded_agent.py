# SPDX-License-Identifier: Apache-2.0
"""An agent that is enabled and has nothing to serve: stop it and keep it stopped, before it loops."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.diagnosis.audit import Subject
from zombiescope.facts.remedies import Remedy
from zombiescope.remedies.situation import Draft, Situation, stop_and_keep_stopped

REMEDIES = (Remedy.STOP_UNIT,)


def propose(situation: Situation) -> Iterator[Draft]:
    audit = situation.audit
    if audit is None or audit.subject is not Subject.HOST:
        return
    looping = {loop.name for loop in audit.loops}
    for unit in audit.unneeded:
        if unit.name not in looping:
            why = f"{unit.name} has nothing to serve: {unit.why}"
            for draft in stop_and_keep_stopped(unit, situation.levers, "unneeded-agent", why):
                yield draft._replace(needs_consent=True)
