# SPDX-License-Identifier: Apache-2.0
"""Who sweeps, and when: the time of processes that read cgroups' statistics, and bursts of their kernel time, from looks about a
second apart."""

from __future__ import annotations

from collections.abc import Mapping

from zombiescope.facts.reclaim import SweepBurst, Sweeper

BUSY_SHARE = 0.2
"""Of a core, in the kernel, between two looks: below it a sweep is too cheap to starve anybody."""
Times = Mapping[int, tuple[str, int, int]]
"""By process: name, ticks in user mode, ticks in the kernel."""


class SweepBursts:
    """`take` one look after the other; it gives the bursts that ended with this look."""

    def __init__(self, ticks_per_second: int) -> None:
        self._ticks_per_second = ticks_per_second
        self._at: float | None = None
        self._before: Times = {}
        self._open: dict[str, SweepBurst] = {}
        self.seconds = 0.0
        """In the kernel, of all of them, since the first look."""

    def take(self, at: float, times: Times) -> tuple[SweepBurst, ...]:
        begun, before = self._at, self._before
        self._at, self._before = at, dict(times)
        if begun is None or at <= begun:
            return ()
        spent = self._kernel_seconds(before, times)
        self.seconds += sum(spent.values())
        busy = {name: seconds for name, seconds in spent.items() if seconds >= BUSY_SHARE * (at - begun)}
        ended = tuple(burst for name, burst in self._open.items() if name not in busy)
        self._open = {
            name: SweepBurst(known.at, name, known.seconds + seconds)
            for name, seconds in busy.items()
            for known in (self._open.get(name, SweepBurst(begun, name, 0.0)),)
        }
        return ended

    @property
    def unfinished(self) -> tuple[SweepBurst, ...]:
        return tuple(self._open.values())

    def _kernel_seconds(self, before: Times, after: Times) -> dict[str, float]:
        """By name; of a process that came or went meanwhile nothing is known."""
        found: dict[str, float] = {}
        for process, (name, _, system) in after.items():
            then = before.get(process)
            if then is not None and then[0] == name and then[2] <= system:
                found[name] = found.get(name, 0.0) + (system - then[2]) / self._ticks_per_second
        return found


def derive_sweepers(before: Times, after: Times, ticks_per_second: int) -> tuple[Sweeper, ...]:
    """A process that came meanwhile counts from its beginning; one that went is not known any more."""
    found: dict[str, Sweeper] = {}
    for process, (name, user, system) in after.items():
        then = before.get(process)
        is_same = then is not None and then[0] == name and then[1] <= user and then[2] <= system
        old_user, old_system = (then[1], then[2]) if then is not None and is_same else (0, 0)
        known = found.get(name, Sweeper(name, 0, 0.0, 0.0))
        found[name] = Sweeper(
            name,
            known.processes + 1,
            known.user_seconds + (user - old_user) / ticks_per_second,
            known.system_seconds + (system - old_system) / ticks_per_second,
        )
    return tuple(sorted(found.values(), key=lambda each: (-each.cpu_seconds, each.name)))
