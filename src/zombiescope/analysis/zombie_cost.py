# SPDX-License-Identifier: Apache-2.0
"""What zombies cost here, by behaviour: does reading statistics pay for them, or does reclaim? And who reads the statistics."""

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum, StrEnum
from typing import NamedTuple

from zombiescope.facts.cgroups import Sweep
from zombiescope.facts.gap import Gap
from zombiescope.facts.reclaim import ReclaimGroup, ReclaimKind, ReclaimSeen, SweepBurst, Sweeper

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


HEALTHY_READ_SECONDS = 0.002
"""For one cgroup's statistics. To print its counters is work of a fixed size, tens of microseconds wherever Linux runs servers; a
read that takes 2 ms did something for thousands of others (at 30 to 300 ns, the cost of a visit, 7,000 to 70,000 of them)."""
LEAST_VISIT_SECONDS = 3e-8
"""To look into one dead cgroup: a read of memory that no cache holds takes longer on any machine (here it takes 350 ns in all:
bench/bench_reclaim_walk.py). A call that is over sooner did not visit them."""
SURE_VISIT_SECONDS = 1e-7
"""Two or three such reads, the least a visit consists of: below it the pages may have taken the time."""
VISITS_OF_A_PAGE = 10.0
"""A ratio, which a faster machine does not change: a visit reads some ten lines of memory that no cache holds (a cgroup's
structures for each node), giving back a clean page one or two (measured: eight to one). As much again if it must be written."""
SLOWDOWN = 2.0
"""A page that takes twice as long beside zombies as apart from them: half of the time is theirs."""
_TELLING_CALLS = 10
"""Fewer calls apart from zombies are no measure for the others."""
_REST_SHARE = 0.1
"""Of the time of all calls, below which those that nobody could be named for are not judged apart."""


class Payer(StrEnum):
    """Which of the two this kernel makes pay for zombies."""

    STATISTICS = "reading statistics"
    RECLAIM = "reclaim"
    BOTH = "both"
    NEITHER = "neither was seen to"
    UNKNOWN = "unknown"


class SweepCost(NamedTuple):
    seconds: float
    each_seconds: float
    """For one cgroup."""
    is_slow: bool


def derive_sweep_cost(sweep: Sweep) -> SweepCost:
    each = sweep.seconds / max(sweep.cgroups, 1)
    return SweepCost(sweep.seconds, each, each >= HEALTHY_READ_SECONDS)


class Walking(StrEnum):
    """Whether calls of reclaim spend their time on visiting dead cgroups."""

    YES = "walks"
    MAYBE = "may walk"
    NO = "does not walk"


class ReclaimWork(NamedTuple):
    """What calls of reclaim did for their time, in terms that do not depend on how fast the machine is."""

    kind: ReclaimKind
    calls: int
    pages: int
    cpu_seconds: float
    zombies: int
    """That each call may have visited."""
    walking: Walking = Walking.NO
    is_placed: bool = False
    """It is known that these lie below the limit that was reached; else they are all there are."""
    are_few: bool = False
    """Fewer than the live ones that each call visits as well."""
    slowdown: float | None = None
    """How many times as long a page took as where no zombies are, on this host, in this window."""

    @property
    def call_seconds(self) -> float:
        return self.cpu_seconds / self.calls

    @property
    def visit_seconds(self) -> float:
        """On a core for each zombie, if each call visits all of them."""
        return self.call_seconds / max(self.zombies, 1)

    @property
    def pages_per_call(self) -> float:
        return self.pages / self.calls

    @property
    def pages_per_second(self) -> float | None:
        """Given back for each second on a core."""
        return self.pages / self.cpu_seconds if self.cpu_seconds > 0 else None


Below = Callable[[str], int]
"""How many zombies have their nearest live ancestor at or below a path."""
LiveBelow = Callable[[str], int | None]
"""How many live memory cgroups are at or below a path; None where nobody counted them."""


class _Weight(IntEnum):
    """Of the dead beside the live that a call visits as well: where they are the fewer, they are not what it takes long for."""

    FEW, UNSURE, MANY = range(3)


def derive_works(
    seen: ReclaimSeen,
    zombies: int,
    live: int,
    below: Below | None = None,
    least: int = 0,
    live_below: LiveBelow = lambda _: None,
) -> tuple[ReclaimWork, ...]:
    """By kind, and the calls at a limit by how many zombies lie below it, where that is known; the dearest first. Fewer than
    `least` are never what a walk is long for."""
    works = []
    for kind in (kind for kind in seen.kinds if kind.calls):
        rest = ReclaimWork(kind.kind, kind.calls, kind.pages, kind.cpu_seconds, zombies)
        if kind.kind is ReclaimKind.LIMIT and below is not None and seen.groups:
            placed, rest = _split(
                seen.groups, rest, below, lambda limit, dead: _weight(dead, live, least, live_below(limit))
            )
            works += [
                _judged_beside(work, placed[_Weight.FEW], weight) for weight, work in placed.items() if work.calls
            ]
        # A full machine reclaims from every cgroup; what lies below a limit that nobody knows is not known either.
        if rest.calls:
            weight = _weight(zombies, live, least, live if kind.kind is ReclaimKind.DIRECT else None)
            # Limits apart from each other: below which of them the dead lie, and who walks, is two questions.
            places = {min(group.limits, key=len) for group in seen.groups if group.limits}
            is_one_place = kind.kind is ReclaimKind.DIRECT or below is not None or len(places) <= 1
            works.append(_judged(rest, weight if is_one_place else min(weight, _Weight.UNSURE)))
    return tuple(sorted(works, key=lambda work: -work.cpu_seconds))


def _weight(dead: int, live: int, least: int, live_there: int | None) -> _Weight:
    """`live`: of the whole host, which no part of it exceeds."""
    if dead < max(least, 1):
        return _Weight.FEW
    if live_there is None:
        return _Weight.MANY if dead >= live else _Weight.UNSURE
    return _Weight.MANY if dead >= live_there else _Weight.FEW


def _split(
    groups: Sequence[ReclaimGroup], whole: ReclaimWork, below: Below, weigh: Callable[[str, int], _Weight]
) -> tuple[dict[_Weight, ReclaimWork], ReclaimWork]:
    """Calls by the zombies below the limit that they reached, and the rest: by whom or at which limit is not known. Of several
    limits the one with most weight counts: which of them was reached is not known."""
    placed, rest = dict.fromkeys(_Weight, ReclaimWork(whole.kind, 0, 0, 0.0, 0, is_placed=True)), whole
    for group in (group for group in groups if group.limits):
        weight, dead = max((weigh(limit, below(limit)), below(limit)) for limit in group.limits)
        known = placed[weight]
        placed[weight] = known._replace(
            calls=known.calls + group.calls,
            pages=known.pages + group.pages,
            cpu_seconds=known.cpu_seconds + group.cpu_seconds,
            zombies=max(known.zombies, dead),
        )
        rest = rest._replace(
            calls=rest.calls - group.calls,
            pages=rest.pages - group.pages,
            cpu_seconds=rest.cpu_seconds - group.cpu_seconds,
        )
    is_left = rest.calls > 0 and rest.cpu_seconds > _REST_SHARE * whole.cpu_seconds
    return placed, rest._replace(pages=max(rest.pages, 0)) if is_left else rest._replace(calls=0)


def _judged_beside(work: ReclaimWork, apart: ReclaimWork, weight: _Weight) -> ReclaimWork:
    """Each of these calls had zombies to visit: against those that had none, else by how many visits a page took. Only a page
    that takes longer than elsewhere proves something: others may pay as much for theirs for a reason of their own."""
    if weight is _Weight.FEW:
        return work._replace(are_few=True)
    if work.visit_seconds < LEAST_VISIT_SECONDS:
        return work
    ours, theirs = work.pages_per_second, apart.pages_per_second if apart.calls >= _TELLING_CALLS else None
    slowdown, visits = theirs / ours if ours and theirs else None, _visits_of_a_page(work)
    is_slower = slowdown is not None and slowdown >= SLOWDOWN
    if not is_slower and visits * VISITS_OF_A_PAGE < 1.0:
        return work
    is_sure = is_slower or (slowdown is None and visits >= 1.0)
    walking = Walking.YES if is_sure and weight is _Weight.MANY else Walking.MAYBE
    return work._replace(walking=walking, slowdown=slowdown)


def _judged(work: ReclaimWork, weight: _Weight) -> ReclaimWork:
    """Whether these calls had zombies to visit is not known: sure only where pages cannot have taken the time."""
    visits = _visits_of_a_page(work)
    if weight is _Weight.FEW:
        return work._replace(are_few=True)
    if work.visit_seconds < LEAST_VISIT_SECONDS or visits * VISITS_OF_A_PAGE < 1.0:
        return work
    is_sure = visits >= VISITS_OF_A_PAGE and work.visit_seconds >= SURE_VISIT_SECONDS and weight is _Weight.MANY
    return work._replace(walking=Walking.YES if is_sure else Walking.MAYBE)


def _visits_of_a_page(work: ReclaimWork) -> float:
    return work.zombies / work.pages_per_call if work.pages else float("inf")


def derive_payer(sweep: Sweep | Gap, works: tuple[ReclaimWork, ...] | Gap) -> Payer:
    slow_sweep = None if isinstance(sweep, Gap) else derive_sweep_cost(sweep).is_slow
    walks = None if isinstance(works, Gap) else any(work.walking is Walking.YES for work in works)
    if not isinstance(works, Gap) and not walks and any(work.walking is Walking.MAYBE for work in works):
        walks = None
    match slow_sweep, walks:
        case True, True:
            return Payer.BOTH
        case True, _:
            return Payer.STATISTICS
        case _, True:
            return Payer.RECLAIM
        case False, False:
            return Payer.NEITHER
        case _:
            return Payer.UNKNOWN
