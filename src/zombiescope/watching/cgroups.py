# SPDX-License-Identifier: Apache-2.0
"""Follow a machine: a light look again and again. What the agent and `top` are made of.

Now and then what costs more: the residual bytes, a timed sweep, empty directories, restarts of units, a walk. Done in a short-lived
child, so that its memory goes away with it; what crosses is plain JSON.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from zombiescope.analysis.ledger import Accounts
from zombiescope.errors import ObservationError
from zombiescope.facts.agent import Occurrence, UnitRestarts
from zombiescope.facts.cgroups import (
    CountSource,
    EmptyDirectories,
    Hierarchy,
    HierarchyVersion,
    Identity,
    Look,
    Residuals,
    Shape,
    Sweep,
)
from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import Counts, EventTier, FlowsSeen, Lifecycle, MakerFlow
from zombiescope.facts.plain import of_outcome, of_plain, to_outcome, to_plain
from zombiescope.facts.pods import POD_PREFIX
from zombiescope.host.access import Host, answers, beside_recording
from zombiescope.host.live import LiveHost
from zombiescope.kernel.ledgers import Ledger
from zombiescope.probes.cgroups import read_controller_row, read_memory_hierarchy
from zombiescope.probes.readers.cgroup_census import (
    ToldLook,
    read_census,
    read_empty_directories,
    read_live_tree,
    read_told_look,
)
from zombiescope.probes.readers.cgroup_lifecycle import ALL_TIERS, open_ledger
from zombiescope.probes.readers.node import read_identity, read_memory_bytes, read_node_image, read_shape
from zombiescope.watching.pods import names_now
from zombiescope.watching.watch import Quiet

FACT = "flows"
SECONDS_OF_AN_ORDINARY_DEATH = 1.0
_MOST_MAKERS = 50
_NOT_HERE = Gap(FACT, "nothing happens in a folder, and its recording kept no births and deaths", "run it on the host")
_GARBLED = Gap(FACT, "the recorded births and deaths are not in a form we know", "record the host again")


class FlowsWatch(Quiet):
    """Begins when it is made; `look` about once a second; then `seen`, which ends it."""

    def __init__(self, host: Host, hierarchy: Hierarchy | Gap) -> None:
        self._host, self._beside = host, beside_recording(host)
        self._start = host.monotonic()
        self._pods: dict[str, str] = {}
        self._accounts = Accounts(self._pods)
        self._lost = 0
        self._ledger: Ledger | Gap = _NOT_HERE
        if isinstance(hierarchy, Gap):
            self._ledger = hierarchy.about(FACT)
        elif isinstance(self._beside, LiveHost):
            self._ledger = open_ledger(self._beside, hierarchy)

    def look(self) -> None:
        if not isinstance(self._ledger, Gap):
            self._take(self._ledger.read())

    def seen(self) -> FlowsSeen | Gap:
        outcome = self._host.experiment(FACT, lambda: to_outcome(self._outcome()))
        return _NOT_HERE if outcome is None else of_outcome(outcome, FlowsSeen, _GARBLED)

    def close(self) -> None:
        if not isinstance(self._ledger, Gap):
            self._ledger.close()

    def _outcome(self) -> FlowsSeen | Gap:
        ledger = self._ledger
        if isinstance(ledger, Gap):
            return ledger
        self.look()
        self._name_pods()
        seconds, counts = self._host.monotonic() - self._start, dict(self._accounts.counts)
        if any(each.balance > 0 for each in counts.values()):
            self._beside.wait(SECONDS_OF_AN_ORDINARY_DEATH)  # those on their way arrive meanwhile
            self.look()
        later = self._accounts.counts if ledger.tier is not EventTier.POLLING else None  # polling sees no releases
        flows = [
            MakerFlow(maker, each.births, each.deaths, None if later is None else _released(each, later[maker]))
            for maker, each in counts.items()
        ]
        self.close()
        flows.sort(key=lambda flow: (-(flow.left or 0), -flow.deaths, flow.maker))
        return FlowsSeen(self._host.wall_clock(), seconds, str(ledger.tier), tuple(flows[:_MOST_MAKERS]), self._lost)

    def _name_pods(self) -> None:
        """Births come before a pod's logs: what was booked by its uid is its workload's."""
        if any(maker.startswith(POD_PREFIX) for maker in self._accounts.counts):
            self._pods.update(names_now(self._beside).makers)
            self._accounts.rename({f"{POD_PREFIX}{uid}": maker for uid, maker in self._pods.items()})

    def _take(self, events: Lifecycle) -> None:
        self._accounts.add(events.flows, events.other)
        self._lost = events.lost or 0 if events.lost is not None else self._lost


def _released(then: Counts, later: Counts) -> int:
    """Of those that had died when the window ended: whoever died after it was released after it, too."""
    return max(later.releases - (later.deaths - then.deaths), then.releases)


_MOST_REUSED = 30


class Tick(NamedTuple):
    at: float
    look: Look | Gap
    look_seconds: float
    lifecycle: Lifecycle | Gap
    lifecycle_seconds: float
    clock: float
    """Seconds on a clock that only goes forward; `at` may jump."""
    source: CountSource | None
    """Where the look has its numbers from; None where it is a gap."""


class Counted(NamedTuple):
    """The directories as they were counted while none came or went, and how often that was used since."""

    births: int
    deaths: int
    live: int
    reused: int


class Follower:
    """Raises ObservationError where the machine has no memory hierarchy to follow."""

    def __init__(self, host: Host, events: str = "auto") -> None:
        if isinstance(hierarchy := read_memory_hierarchy(host), Gap):
            raise ObservationError("cannot find the memory cgroups", hierarchy.reason, hierarchy.hint)
        self.host, self.hierarchy = host, hierarchy
        self.identity: Identity = read_identity(host)
        self.shape: Shape = read_shape(host)
        self.memory_bytes: int | Gap = read_memory_bytes(host)
        self.image: str = read_node_image(host)
        self.ledger = open_ledger(host, hierarchy, ALL_TIERS if events == "auto" else (EventTier(events),))
        self._walked: Counted | None = None

    def tick(self) -> Tick:
        at, start = self.host.wall_clock(), self.host.monotonic()
        told = self._look()
        middle = self.host.monotonic()
        lifecycle = self.ledger if isinstance(self.ledger, Gap) else self.ledger.read()
        look, source = (told, None) if isinstance(told, Gap) else told
        return Tick(at, look, middle - start, lifecycle, self.host.monotonic() - middle, start, source)

    def _look(self) -> ToldLook | Gap:
        """On v1 the directories are counted once; what was made and removed since the ledger knows. Now and then, and as long as
        some came or went while they were counted, they are counted again."""
        if self.hierarchy.version is not HierarchyVersion.V1 or isinstance(self.ledger, Gap):
            return read_told_look(self.host, self.hierarchy)
        row, moved, before = read_controller_row(self.host), self.ledger.moved(), self._walked
        if before and moved and before.reused < _MOST_REUSED and not isinstance(row, Gap):
            self._walked = before._replace(reused=before.reused + 1)
            live = before.live + (moved[0] - before.births) - (moved[1] - before.deaths)
            return ToldLook(Look(max(row.cgroups, live), live), CountSource.PROC_CGROUPS)
        told = read_told_look(self.host, self.hierarchy)
        is_still = moved == self.ledger.moved()
        self._walked = Counted(*moved, told.look.live, 0) if moved and is_still and not isinstance(told, Gap) else None
        return told

    def close(self) -> None:
        if not isinstance(self.ledger, Gap):
            self.ledger.close()


class Backlog(NamedTuple):
    """Zombies as a walk found them; ordinary deaths on their way are among them."""

    by_maker: dict[str, int]
    swapped: int | None
    """Those with pages in swap; None where one of them did not tell."""


def read_backlog(host: Host) -> Backlog | Gap:
    """By a walk of the kernel's own tree."""
    from zombiescope.analysis.maker import Makers  # noqa: PLC0415 (only the short-lived child pays for a walk)
    from zombiescope.probes.readers.zombie_walk import read_former_paths  # noqa: PLC0415

    if isinstance(zombies := read_former_paths(host), Gap):
        return zombies
    makers, swapped = Makers(), [is_swapped for _, is_swapped in zombies]
    found = Counter(makers.of(path) for path, _ in zombies)
    return Backlog(dict(found), None if None in swapped else sum(map(bool, swapped)))


_LONG_SWEEP_SECONDS = 0.2
T = TypeVar("T")


class Walked(NamedTuple):
    seconds: float
    backlog: Backlog | Gap


class Restarts(NamedTuple):
    units: tuple[UnitRestarts, ...]


class Heavy(NamedTuple):
    seconds: Mapping[str, float]
    """That each part took."""
    residual: Residuals | Gap
    sweep: Sweep | Gap
    empty: EmptyDirectories | Gap
    restarts: Restarts | Gap | None
    """None: no systemd runs here."""

    def own_sweep(self, now: float) -> tuple[Occurrence, ...]:
        """The agent's own sweep is an event like anybody's, where it took as long as one that could starve a core."""
        sweep = self.sweep
        if isinstance(sweep, Gap) or sweep.seconds < _LONG_SWEEP_SECONDS:
            return ()
        since = sum(self.seconds.get(name, 0.0) for name in ("sweep", "empty", "restarts"))
        words = f"zombiescope agent: {sweep.seconds:.1f} s, {sweep.cgroups:,} cgroups"
        return (Occurrence(now - since, "stat-sweep", words),)


def walk(host: Host) -> Any:
    start = host.monotonic()
    backlog = read_backlog(host)
    return to_plain(Walked(host.monotonic() - start, backlog), Walked)


def walked_of(plain: Any) -> Walked:
    found: Walked = of_plain(plain, Walked)
    return found


def look_heavily(host: Host, hierarchy: Hierarchy) -> Any:
    from zombiescope.probes.readers.memcg_residual import read_residuals  # noqa: PLC0415 (only the child needs them)
    from zombiescope.probes.readers.stat_sweep import read_stat_sweep  # noqa: PLC0415

    seconds: dict[str, float] = {}

    def timed(name: str, work: Callable[[], T]) -> T:
        start = host.monotonic()
        found = work()
        seconds[name] = host.monotonic() - start
        return found

    live = read_live_tree(host, hierarchy)
    found = Heavy(
        seconds,
        timed("residual", lambda: read_residuals(host, hierarchy, _parents(host, hierarchy))),
        timed("sweep", lambda: live if isinstance(live, Gap) else read_stat_sweep(host, hierarchy, live.paths)),
        timed("empty", lambda: live if isinstance(live, Gap) else read_empty_directories(host, hierarchy, live.leaves)),
        timed("restarts", lambda: _restarts(host)) if has_systemd(host) else None,
    )
    return to_plain(found, Heavy)


def heavy_of(plain: Any) -> Heavy:
    found: Heavy = of_plain(plain, Heavy)
    return found


def has_systemd(host: Host) -> bool:
    """The test of sd_booted(3)."""
    return answers(host.subdirectories, b"/run/systemd/system")


def _restarts(host: Host) -> Restarts | Gap:
    from zombiescope.probes.readers.systemd_state import read_systemd_state  # noqa: PLC0415

    if isinstance(units := read_systemd_state(host), Gap):
        return units
    return Restarts(
        tuple(
            UnitRestarts(unit.name, unit.restarts, unit.sub_state == "auto-restart")
            for unit in units.values()
            if unit.restarts
        )
    )


def _parents(host: Host, hierarchy: Hierarchy) -> Mapping[bytes, int] | None:
    """Those with zombies, which v2 alone tells."""
    if hierarchy.version is HierarchyVersion.V1:
        return None
    census = read_census(host, hierarchy)
    return None if isinstance(census, Gap) else census.parents
