# SPDX-License-Identifier: Apache-2.0
"""A unit that loops and may be needed: a start limit that can trip and a longer delay; it then fails loudly, once."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.analysis.maker import unit_maker
from zombiescope.diagnosis.audit import UnitAudit
from zombiescope.diagnosis.workload_audit import Need
from zombiescope.facts.remedies import Remedy
from zombiescope.remedies.plan import PlaceFile, Risk, Undo
from zombiescope.remedies.situation import UNIT_FOLDER, Draft, Situation

REMEDIES = (Remedy.LIMIT_RESTARTS,)

_BURST = 5
_LEAST_DELAY_SECONDS = 30


def propose(situation: Situation) -> Iterator[Draft]:
    for loop in situation.loops:
        unit = situation.unit(loop.name)
        if unit is None or loop.kind != "unit" or unit.need is Need.UNNEEDED or unit.policy.can_trip:
            continue
        yield Draft(
            f"limit:{unit.name}",
            f"limit the restarts of {unit.name}: after {_BURST} in a row it stays stopped",
            PlaceFile(f"{UNIT_FOLDER}/{unit.name}.d/50-zombiescope-restarts.conf".encode(), drop_in(unit)),
            f"{unit.name}: {loop.why}; {unit.policy.why}; is it needed? {unit.need}: {unit.why}",
            "crash-looping-unit",
            f"systemctl show -p StartLimitIntervalUSec,RestartUSec {unit.name}",
            Risk.MEDIUM,
            Undo.EXACT,
            needs_consent=True,
            maker=unit_maker(unit.name),
        )


def drop_in(unit: UnitAudit) -> bytes:
    """The interval is twice what the burst takes, so it trips also when each run lasts as long as the delay."""
    delay = max(unit.policy.delay_seconds or 0, _LEAST_DELAY_SECONDS)
    text = (
        "# Placed by zombiescope: the unit was restarted for ever and left a zombie memory cgroup with every run.\n"
        f"[Unit]\nStartLimitIntervalSec={round(2 * _BURST * delay)}\nStartLimitBurst={_BURST}\n"
        f"[Service]\nRestartSec={round(delay)}\n"
    )
    return text.encode()
