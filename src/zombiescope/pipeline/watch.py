# SPDX-License-Identifier: Apache-2.0
"""What a running machine adds to an audit: systemd's answers, the journal, births in a window, zombies by unit, programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from zombiescope.analysis.maker import Makers
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.facts.units import LiveUnit
from zombiescope.host.access import Host
from zombiescope.probes.readers.cgroup_births import read_cgroup_births
from zombiescope.probes.readers.cgroup_mounts import read_memory_hierarchy
from zombiescope.probes.readers.systemd_state import read_journal_restarts, read_systemd_state
from zombiescope.probes.readers.zombie_walk import read_zombie_walk
from zombiescope.probes.unit_text import is_unit_name

LIVE_FIELDS = ("state", "restarts", "restarts_in_journal", "births", "zombies")
OFFLINE_FIELDS = (*LIVE_FIELDS, "processes")


class Window(NamedTuple):
    seconds: float
    progress: Callable[[float], None] = lambda _: None
    with_zombies: bool = True


class Live(NamedTuple):
    units: dict[str, LiveUnit] | None = None
    journal: dict[str, int] | None = None
    births: Mapping[bytes, int] = MappingProxyType({})
    was_watched: bool = False
    moved: Mapping[str, int] = MappingProxyType({})
    zombies: dict[str, int] | None = None
    programs: frozenset[str] = frozenset()
    processes: Mapping[str, int] | None = None


def watch(host: Host, window: Window, *, is_elsewhere: bool) -> tuple[Live, tuple[Gap, ...]]:
    """What the running machine adds: systemd's answers before and after a window, births in it, the journal, zombies."""
    if is_elsewhere:
        programs, processes = _processes(host)
        gap = Gap("units[].state", "systemd of a host mounted elsewhere is not asked", "run it on that host")
        return Live(programs=programs, processes=processes), tuple(gap.about(f"units[].{name}") for name in LIVE_FIELDS)
    before = read_systemd_state(host)
    births, gaps = _births(host, window.seconds, window.progress)
    zombies = _zombies(host) if window.with_zombies else Gap("units[].zombies", "zombies were not looked at one by one")
    if isinstance(zombies, Gap):
        gaps.append(zombies)
    live = live_between(host, before, births, gaps)
    return live._replace(zombies=None if isinstance(zombies, Gap) else zombies), tuple(gaps)


def live_between(
    host: Host,
    before: Mapping[str, LiveUnit] | Gap,
    births: Mapping[bytes, int] | None,
    gaps: list[Gap] | None = None,
) -> Live:
    """The end of a window: what moved since `before`. What could not be had is added to `gaps`."""
    told: list[Gap] = [] if gaps is None else gaps
    programs, processes = _processes(host)
    live = Live(births=births or {}, was_watched=births is not None, programs=programs, processes=processes)
    if isinstance(before, Gap):
        told += [before.about(f"units[].{name}") for name in ("state", "restarts", "restarts_in_journal")]
        return live
    after = read_systemd_state(host)
    units = before if isinstance(after, Gap) else after
    journal = read_journal_restarts(host)
    if isinstance(journal, Gap):
        told.append(journal)
    moved = {
        name: (unit.restarts or 0) - (before[name].restarts or 0) for name, unit in units.items() if name in before
    }
    return live._replace(units=dict(units), journal=None if isinstance(journal, Gap) else journal, moved=moved)


def _births(host: Host, seconds: float, progress: Callable[[float], None]) -> tuple[Counter[bytes] | None, list[Gap]]:
    hierarchy = read_memory_hierarchy(host)
    if isinstance(hierarchy, Gap):
        return None, [hierarchy.about("units[].births")]
    if seconds <= 0:
        return None, [Gap("units[].births", "nothing was watched", "--seconds 10")]
    return read_cgroup_births(host, hierarchy, seconds, progress), []


def _zombies(host: Host) -> dict[str, int] | Gap:
    """By the unit that made them, where they can be seen one by one."""
    walk = read_zombie_walk(host)
    if isinstance(walk, Gap):
        return walk.about("units[].zombies")
    makers = Makers()
    named = Counter(makers.of(zombie.path) for zombie in walk.zombies)
    return {maker.removeprefix("unit:"): count for maker, count in named.items() if maker.startswith("unit:")}


def _processes(host: Host) -> tuple[frozenset[str], dict[str, int]]:
    """Names of running programs, and how many run in the cgroup of each service."""
    programs: set[str] = set()
    units: Counter[str] = Counter()
    for name in host.subdirectories(b"/proc"):
        if not name.isdigit():
            continue
        try:
            programs.add(shown(host.read(b"/proc/" + name + b"/comm").strip()))
            places = host.read(b"/proc/" + name + b"/cgroup")
        except OSError:
            continue
        owners = {owner for line in places.splitlines() if (owner := unit_of(line.split(b":", 2)[-1]))}
        units.update(owners)
    return frozenset(programs), dict(units)


def unit_of(path: bytes) -> str:
    """The service at or above a cgroup's path, as systemd writes its name; empty when there is none."""
    name = next((part for part in path.split(b"/") if part.endswith(b".service")), b"")
    plain = name.decode("ascii", "replace")
    return plain if is_unit_name(plain) else shown(name)


def inner_births(births: Mapping[bytes, int]) -> dict[str, int]:
    """Births below a service's own cgroup, by that service."""
    found: Counter[str] = Counter()
    for path, count in births.items():
        owner = unit_of(path.rpartition(b"/")[0])
        if owner:
            found[owner] += count
    return dict(found)


def unit_births(births: Mapping[bytes, int]) -> dict[str, int]:
    """Births at and below a service's own cgroup."""
    found: Counter[str] = Counter()
    for path, count in births.items():
        owner = unit_of(path)
        if owner:
            found[owner] += count
    return dict(found)
