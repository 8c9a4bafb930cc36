# SPDX-License-Identifier: Apache-2.0
"""Which services and containers are being restarted over and over, now.

A count alone says little: a healthy service that restarts every night collects a large one over a year. What counts is
waiting for the next restart, restarts inside the window, or several in the journal's last hour.
"""

from __future__ import annotations

from dataclasses import dataclass

from zombiescope.analysis.looping_units import RESTARTS_TELLING
from zombiescope.facts.units import LiveUnit, Services


@dataclass(frozen=True, slots=True)
class Loop:
    name: str
    kind: str
    """`unit`: systemd restarts it; `inside`: it restarts something inside its unit; `container`: a runtime restarts it."""
    restarts: int
    why: str
    source: str


def derive_loops(services: Services) -> tuple[Loop, ...]:
    loops = [loop for unit in (services.live or {}).values() if (loop := _unit_loop(unit, services))]
    looping = {loop.name for loop in loops}
    for name, count in sorted(services.inner_restarts.items()):
        if name not in looping and count >= RESTARTS_TELLING:
            why = f"{count} children came and went in the window while the unit stayed up: NRestarts does not see it"
            loops.append(Loop(name, "inside", count, why, "/proc/PID/stat"))
    for container in services.containers:
        if container.restarts >= RESTARTS_TELLING:
            why = f"{container.runtime} has restarted it {container.restarts} times in place"
            loops.append(Loop(container.name, "container", container.restarts, why, container.path))
    return tuple(sorted(loops, key=lambda loop: (-loop.restarts, loop.name)))


def _unit_loop(unit: LiveUnit, services: Services) -> Loop | None:
    in_window = services.window_restarts.get(unit.name, 0)
    in_journal = (services.journal_restarts or {}).get(unit.name, 0)
    total = unit.restarts or 0
    if in_journal >= RESTARTS_TELLING:
        return Loop(
            unit.name, "unit", max(total, in_journal), f"{in_journal} automatic restarts in the last hour", "journal"
        )
    if in_window >= 2:
        return Loop(unit.name, "unit", total, f"{in_window} automatic restarts in the window", "NRestarts")
    if unit.sub_state == "auto-restart" and total >= RESTARTS_TELLING:
        return Loop(unit.name, "unit", total, f"waiting for its next restart after {total}", "SubState, NRestarts")
    return None
