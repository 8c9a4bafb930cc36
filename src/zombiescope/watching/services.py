# SPDX-License-Identifier: Apache-2.0
"""Watch the services: systemd's answers before and after, births in between, the journal, zombies by unit, programs. For an audit,
or in the doctor's window, of which a recording keeps what is worth telling."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from zombiescope.analysis.maker import Makers, fold_unit
from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.facts.plain import of_outcome, to_outcome
from zombiescope.facts.units import LiveUnit, Running, ServicesSeen, UnitFiles, UnneededService
from zombiescope.host.access import Host, beside_recording
from zombiescope.host.live import LiveHost
from zombiescope.probes.cgroups import read_memory_hierarchy
from zombiescope.probes.readers.cgroup_lifecycle import BirthsWatch, read_cgroup_births, watch_births
from zombiescope.probes.readers.systemd_state import read_journal_restarts, read_systemd_state
from zombiescope.probes.unit_layout import is_unit_name
from zombiescope.watching.watch import Quiet

if TYPE_CHECKING:
    from zombiescope.diagnosis.audit import Audit

LIVE_FIELDS = ("state", "restarts", "restarts_in_journal", "births", "zombies")
OFFLINE_FIELDS = (*LIVE_FIELDS, "processes")

FACT = "services"
_NOT_HERE = Gap(FACT, "nothing runs in a folder, and this recording kept no services", "run it on the host")
_GARBLED = Gap(FACT, "the recorded services are not in a form we know", "record the host again")
_ELSEWHERE = Gap(FACT, "the services of a host mounted elsewhere cannot be asked", "run it on that host")
_HOUR = 3600.0
_CONTAINER = re.compile(rb"(?:^|[/:-])([0-9a-f]{64})(?:\.scope)?(?:/|$)")
_OWNED = re.compile(rb"\.(?:service|scope|slice)(?:/|$)")
"""systemd's names: a unit, a session, a user."""


class ServicesWindow(NamedTuple):
    """How an audit watches a running machine."""

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
    running: Running | None = None


Auditing = Callable[[Live], "tuple[Audit, UnitFiles]"]
"""Judges the services of this host by what was watched."""


def watch_services(host: Host, window: ServicesWindow, *, is_elsewhere: bool) -> tuple[Live, tuple[Gap, ...]]:
    """What the running machine adds: systemd's answers before and after a window, births in it, the journal, zombies."""
    if is_elsewhere:
        programs, processes, running = _processes(host)
        gap = Gap("units[].state", "systemd of a host mounted elsewhere is not asked", "run it on that host")
        live = Live(programs=programs, processes=processes, running=running)
        return live, tuple(gap.about(f"units[].{name}") for name in LIVE_FIELDS)
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
    """The end of a window: what moved since `before`. What is not available is added to `gaps`."""
    told: list[Gap] = [] if gaps is None else gaps
    programs, processes, running = _processes(host)
    live = Live(
        births=births or {}, was_watched=births is not None, programs=programs, processes=processes, running=running
    )
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
    if isinstance(hierarchy := read_memory_hierarchy(host), Gap):
        return None, [hierarchy.about("units[].births")]
    if seconds <= 0:
        return None, [Gap("units[].births", "nothing was watched", "--seconds 10")]
    births = read_cgroup_births(host, hierarchy, seconds, progress)
    return (None, [births]) if isinstance(births, Gap) else (births, [])


def _zombies(host: Host) -> dict[str, int] | Gap:
    """By the unit that made them, where they can be seen one by one."""
    from zombiescope.probes.readers.zombie_walk import read_zombie_walk  # noqa: PLC0415 (the doctor's window has no walk)

    if isinstance(walk := read_zombie_walk(host), Gap):
        return walk.about("units[].zombies")
    named = Counter(map(Makers().of, (zombie.path for zombie in walk.zombies)))
    return {maker.removeprefix("unit:"): count for maker, count in named.items() if maker.startswith("unit:")}


def _processes(host: Host) -> tuple[frozenset[str], dict[str, int], Running]:
    """Names of running programs, how many run in the cgroup of each service, and what belongs to no unit."""
    programs: set[str] = set()
    units: Counter[str] = Counter()
    outside: Counter[str] = Counter()
    containers: dict[str, str] = {}
    cgroups: set[str] = set()
    for name in filter(bytes.isdigit, host.subdirectories(b"/proc")):
        try:
            program = shown(host.read(b"/proc/" + name + b"/comm").strip())
            places = [line.split(b":", 2)[-1] for line in host.read(b"/proc/" + name + b"/cgroup").splitlines()]
            parent = host.read(b"/proc/" + name + b"/stat").rpartition(b")")[2].split()[1]
        except (OSError, IndexError):
            continue
        programs.add(program)
        cgroups.update(shown(part) for place in places for part in place.split(b"/") if part)
        units.update({owner for place in places if (owner := unit_of(place))})
        held = {found[1].decode(): shown(place) for place in places if (found := _CONTAINER.search(place))}
        containers.update(held)
        # Process 2 makes the kernel's own threads.
        if not held and b"2" not in (parent, name) and not any(map(_OWNED.search, places)):
            outside[program] += 1
    return frozenset(programs), dict(units), Running(containers, dict(outside), frozenset(cgroups))


def unit_of(path: bytes) -> str:
    """The service at or above a cgroup's path, as systemd writes its name; empty when there is none."""
    name = next((part for part in path.split(b"/") if part.endswith(b".service")), b"")
    plain = name.decode("ascii", "replace")
    return plain if is_unit_name(plain) else shown(name)


def inner_births(births: Mapping[bytes, int]) -> dict[str, int]:
    """Births below a service's own cgroup, by that service."""
    return _by_unit((path.rpartition(b"/")[0], count) for path, count in births.items())


def unit_births(births: Mapping[bytes, int]) -> dict[str, int]:
    """Births at and below a service's own cgroup."""
    return _by_unit(births.items())


def _by_unit(counts: Iterable[tuple[bytes, int]]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for path, count in counts:
        if owner := unit_of(path):
            found[owner] += count
    return dict(found)


class ServicesWatch(Quiet):
    """The first look is taken when it is made; `look` often; then `seen`."""

    def __init__(self, host: Host, hierarchy: Hierarchy | Gap, audit: Auditing) -> None:
        self._host, self._beside, self._audit = host, beside_recording(host), audit
        self._is_this_host = isinstance(self._beside, LiveHost) and self._beside.label == LiveHost().label
        self._births: BirthsWatch | Gap | None = None
        self._start = host.monotonic()
        self._before: Mapping[str, LiveUnit] | Gap = _NOT_HERE
        if self._is_this_host:
            self._before = read_systemd_state(self._beside)
            if isinstance(hierarchy, Hierarchy):
                self._births = watch_births(self._beside, hierarchy)

    def look(self) -> None:
        if isinstance(self._births, BirthsWatch):
            self._births.look_if_due()

    def seen(self) -> ServicesSeen | Gap:
        outcome = self._host.experiment(FACT, lambda: to_outcome(self._outcome()))
        return _NOT_HERE if outcome is None else of_outcome(outcome, ServicesSeen, _GARBLED)

    def _outcome(self) -> ServicesSeen | Gap:
        if not self._is_this_host:
            return _ELSEWHERE
        seconds = self._host.monotonic() - self._start
        births = self._births.births if isinstance(self._births, BirthsWatch) else None
        live = live_between(self._beside, self._before, births)
        audit, files = self._audit(live)
        needs = {unit.name: unit for unit in audit.units}
        loops = []
        for loop in audit.loops:
            if loop.kind != "pod":  # those are told by the watch of pods
                unit = needs.get(loop.name)
                every = _every(loop.name, live, seconds, unit.policy.delay_seconds if unit else None)
                loops.append(loop._replace(every_seconds=every, need=unit.need.value if unit else "unknown"))
        return ServicesSeen(
            self._host.wall_clock(),
            seconds,
            len(audit.starting),
            tuple(loops),
            tuple(
                UnneededService(
                    unit.name,
                    unit.enabled,
                    unit.why,
                    unit.path,
                    unit.may_loop,
                    unit.from_vendor,
                    unit.policy.restarts_per_day,
                )
                for unit in audit.unneeded
            ),
            live.units is not None,
            bool(audit.units),
            _timers(files),
        )


def _timers(files: UnitFiles) -> tuple[tuple[str, str], ...]:
    from zombiescope.analysis.unit_starts import timers  # noqa: PLC0415 (a replay does not pay for it)

    told = (timer for timer in timers(files) if timer.command)
    return tuple(sorted({(fold_unit(timer.command.encode()).decode(), timer.name) for timer in told}))


def _every(name: str, live: Live, seconds: float, delay: float | None) -> float | None:
    """Seen in the window where it restarted at least twice, else by the journal's last hour, else what is configured."""
    if (moved := live.moved.get(name, 0)) >= 2:
        return seconds / moved
    in_hour = (live.journal or {}).get(name, 0)
    return _HOUR / in_hour if in_hour >= 30 else delay
