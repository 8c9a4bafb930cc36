# SPDX-License-Identifier: Apache-2.0
"""What costs more than a look: the residual bytes, a timed sweep, empty directories, restarts of units, a walk. Done in a
short-lived child, so that its memory goes away with it; what crosses is plain JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from zombiescope.facts.agent import Occurrence, UnitRestarts
from zombiescope.facts.cgroups import EmptyDirectories, Hierarchy, HierarchyVersion, Residuals, Sweep
from zombiescope.facts.gap import Gap
from zombiescope.facts.plain import of_plain, to_plain
from zombiescope.host.access import Host
from zombiescope.probes.readers.cgroup_census import read_census, read_empty_directories, read_live_tree
from zombiescope.watching.cgroups import Backlog, read_backlog

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
        timed("restarts", lambda: _restarts(host)) if _has_systemd(host) else None,
    )
    return to_plain(found, Heavy)


def heavy_of(plain: Any) -> Heavy:
    found: Heavy = of_plain(plain, Heavy)
    return found


def _has_systemd(host: Host) -> bool:
    """The test of sd_booted(3)."""
    try:
        host.subdirectories(b"/run/systemd/system")
    except OSError:
        return False
    return True


def _restarts(host: Host) -> Restarts | Gap:
    from zombiescope.probes.readers.systemd_state import read_systemd_state  # noqa: PLC0415

    units = read_systemd_state(host)
    if isinstance(units, Gap):
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
