# SPDX-License-Identifier: Apache-2.0
"""Which services and containers are being restarted over and over, now.

A count alone says little: a healthy service that restarts every night collects a large one over a year. What counts is
waiting for the next restart, restarts inside the window, or several in the journal's last hour.
"""

from __future__ import annotations

from dataclasses import dataclass

from zombiescope.analysis.looping import DOCKER_PAUSE_SECONDS, KUBELET_PAUSE_SECONDS, RESTARTS_TELLING, why_looping
from zombiescope.facts.pods import Container, workload_of
from zombiescope.facts.units import LiveUnit, RestartingContainer, Services


@dataclass(frozen=True, slots=True)
class Loop:
    name: str
    kind: str
    """`unit`: systemd restarts it; `inside`: it restarts something inside its unit; `container`: a runtime restarts it; `pod`:
    kubelet restarts containers of a workload."""
    restarts: int
    why: str
    source: str


def derive_loops(services: Services) -> tuple[Loop, ...]:
    loops = [loop for unit in (services.live or {}).values() if (loop := _unit_loop(unit, services))]
    looping = {loop.name for loop in loops}
    for name, count in sorted(services.inner_restarts.items()):
        if name not in looping and count >= RESTARTS_TELLING:
            why = (
                f"{count} children came and went in the window while the unit stayed up, which NRestarts does not count"
            )
            loops.append(Loop(name, "inside", count, why, "/proc/PID/stat"))
    loops += _container_loops(services)
    return tuple(sorted(loops, key=lambda loop: (-loop.restarts, loop.name)))


def _container_loops(services: Services) -> list[Loop]:
    """Only what restarts now; of a workload all its containers are one."""
    if services.now is None:
        return []
    found: dict[str, list[tuple[RestartingContainer, str]]] = {}
    for one in services.containers:
        pause = DOCKER_PAUSE_SECONDS if one.runtime == "docker" else KUBELET_PAUSE_SECONDS
        each = Container(one.name, one.restarts, one.restarted_at, one.pause_seconds, one.is_running, *one.ended)
        why = why_looping(each, services.now, longest_pause=pause)
        if why:
            found.setdefault(one.maker or one.name, []).append((one, why))
    return [_together(name, each) for name, each in found.items()]


def _together(name: str, looping: list[tuple[RestartingContainer, str]]) -> Loop:
    first, why = max(looping, key=lambda each: each[0].restarts)
    restarts = sum(one.restarts for one, _ in looping)
    workload = workload_of(name)
    if workload is None:
        return Loop(name, "container", restarts, f"its container is {why}", first.path)
    some = f"{len(looping):,} containers, such as {first.name}" if len(looping) > 1 else first.name
    return Loop(name, "pod", restarts, f"{some}: {why}", first.path)


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
