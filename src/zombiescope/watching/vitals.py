# SPDX-License-Identifier: Apache-2.0
"""Watch for a window what a remedy should change: the plan's zombies, its makers' restarts, the sweep, the cores, throttling."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase

from zombiescope.analysis.maker import NO_PODS, Makers, unit_maker
from zombiescope.facts.cgroups import Look
from zombiescope.facts.gap import Gap
from zombiescope.facts.pressure import Vitals
from zombiescope.host.access import Host
from zombiescope.probes.readers.cgroup_census import read_live_tree, read_one_look
from zombiescope.probes.readers.cgroup_mounts import read_memory_hierarchy
from zombiescope.probes.readers.cpu_throttling import read_throttling
from zombiescope.probes.readers.stat_sweep import read_stat_sweep
from zombiescope.probes.readers.systemd_state import read_systemd_state
from zombiescope.probes.readers.zombie_walk import read_zombie_walk
from zombiescope.watching.cores import CoresWatch
from zombiescope.watching.pods import names_now

_LOOK_SECONDS = 0.1


class Subject:
    """What a plan is about: the zombies of these makers, or those a person asked for, or all."""

    def __init__(
        self, makers: tuple[str, ...], maker: str | None, below: bytes | None, zombie: int | None = None
    ) -> None:
        """`zombie`: only this one, by its id."""
        self.makers, self.maker, self.below, self.zombie = makers, maker, below, zombie

    def count(self, host: Host) -> int | None:
        walk = read_zombie_walk(host)
        if isinstance(walk, Gap):
            return None if self.makers or self.maker or self.below or self.zombie is not None else all_zombies(host)
        if self.zombie is not None:
            return sum(zombie.id == self.zombie for zombie in walk.zombies)
        pods = names_now(host).makers if any(b"pod" in zombie.path for zombie in walk.zombies) else NO_PODS
        name = Makers(pods).of
        return sum(self._wants(name(zombie.path), zombie.parent) for zombie in walk.zombies)

    def _wants(self, maker: str, parent: bytes) -> bool:
        if self.maker is not None and not fnmatchcase(maker, self.maker):
            return False
        if self.below is not None and not (parent + b"/").startswith(self.below.rstrip(b"/") + b"/"):
            return False
        narrow = self.maker is not None or self.below is not None
        return narrow or not self.makers or maker in self.makers


def watch_vitals(
    host: Host,
    subject: Subject,
    seconds: float,
    progress: Callable[[float], None] = lambda _: None,
    beside: Callable[[], None] = lambda: None,
) -> Vitals:
    """`beside`: called at every look."""
    begin, at = host.monotonic(), host.wall_clock()
    first, restarts = subject.count(host), restarts_of(host, subject.makers)
    throttled = _throttled_seconds(host)
    cores = CoresWatch(host, _LOOK_SECONDS, seconds)
    while (passed := host.monotonic() - begin) < seconds:
        cores.look()
        beside()
        progress(passed)
        host.wait(min(_LOOK_SECONDS, seconds - passed))
    cores.look()
    seen, later = cores.seen(), _throttled_seconds(host)
    known = not isinstance(throttled, Gap) and not isinstance(later, Gap)
    return Vitals(
        at,
        host.monotonic() - begin,
        all_zombies(host),
        first,
        subject.count(host),
        moved(restarts, restarts_of(host, subject.makers)),
        sweep_seconds(host),
        None if isinstance(seen, Gap) else round(seen.saturated_seconds, 3),
        max(later - throttled, 0.0) if known else None,  # type: ignore[operator]
    )


def restarts_of(host: Host, makers: tuple[str, ...]) -> dict[str, tuple[int, bool]] | None:
    """By unit, or by instance of a template: how often systemd restarted it, and whether it waits for the next."""
    if not any(maker.startswith("unit:") for maker in makers):
        return {}
    state = read_systemd_state(host)
    if isinstance(state, Gap):
        return None
    found = {name: unit for name, unit in state.items() if unit_maker(name) in makers}
    return {name: (unit.restarts or 0, unit.sub_state == "auto-restart") for name, unit in found.items()}


def moved(before: dict[str, tuple[int, bool]] | None, after: dict[str, tuple[int, bool]] | None) -> int | None:
    if before is None or after is None:
        return None
    moved = sum(max(count - before.get(name, (0, False))[0], int(waits)) for name, (count, waits) in after.items())
    return max(moved, 0)


def all_zombies(host: Host) -> int | None:
    hierarchy = read_memory_hierarchy(host)
    look = hierarchy if isinstance(hierarchy, Gap) else read_one_look(host, hierarchy)
    return look.zombies if isinstance(look, Look) else None


def sweep_seconds(host: Host) -> float | None:
    hierarchy = read_memory_hierarchy(host)
    if isinstance(hierarchy, Gap):
        return None
    live = read_live_tree(host, hierarchy)
    sweep = live if isinstance(live, Gap) else read_stat_sweep(host, hierarchy, live.paths)
    return None if isinstance(sweep, Gap) else sweep.seconds


def _throttled_seconds(host: Host) -> float | Gap:
    found = read_throttling(host)
    return found if isinstance(found, Gap) else sum(group.seconds for group in found.values())
