# SPDX-License-Identifier: Apache-2.0
"""What costs more than a look: the residual bytes, a timed sweep, empty directories, restarts of units, a walk. Done in a
short-lived child, so that its memory goes away with it; what crosses is plain JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from zombiescope.facts.agent import Occurrence, UnitRestarts
from zombiescope.facts.cgroups import EmptyDirectories, Hierarchy, HierarchyVersion, MemoryUse, Residuals, Sweep
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown, unshown
from zombiescope.host.access import Host
from zombiescope.pipeline.follow import Backlog, read_backlog

_LONG_SWEEP_SECONDS = 0.2


def observe_heavily(host: Host, hierarchy: Hierarchy, *, walk: bool) -> dict[str, Any]:
    """Each part with the seconds it took: `{"residuals": [seconds, value or gap], …}`."""
    from zombiescope.probes.readers.cgroup_census import read_live_tree  # noqa: PLC0415 (only the child needs them)
    from zombiescope.probes.readers.empty_directories import read_empty_directories  # noqa: PLC0415
    from zombiescope.probes.readers.memcg_residual import read_residuals  # noqa: PLC0415
    from zombiescope.probes.readers.stat_sweep import read_stat_sweep  # noqa: PLC0415

    found: dict[str, Any] = {}

    def timed(name: str, work: Any) -> None:
        start = host.monotonic()
        value = work()
        found[name] = [host.monotonic() - start, _plain(value)]

    if walk:
        timed("walk", lambda: read_backlog(host))
        return found
    live = read_live_tree(host, hierarchy)
    timed("residual", lambda: read_residuals(host, hierarchy, _parents(host, hierarchy)))
    timed("sweep", lambda: live if isinstance(live, Gap) else read_stat_sweep(host, hierarchy, live.paths))
    timed("empty", lambda: live if isinstance(live, Gap) else read_empty_directories(host, hierarchy, live.leaves))
    if _has_systemd(host):
        timed("restarts", lambda: _restarts(host))
    return found


def _has_systemd(host: Host) -> bool:
    """The test of sd_booted(3)."""
    try:
        host.subdirectories(b"/run/systemd/system")
    except OSError:
        return False
    return True


def _restarts(host: Host) -> list[UnitRestarts] | Gap:
    from zombiescope.probes.readers.systemd_state import read_systemd_state  # noqa: PLC0415

    units = read_systemd_state(host)
    if isinstance(units, Gap):
        return units
    return [
        UnitRestarts(unit.name, unit.restarts, unit.sub_state == "auto-restart")
        for unit in units.values()
        if unit.restarts
    ]


def _parents(host: Host, hierarchy: Hierarchy) -> Mapping[bytes, int] | None:
    """Those with zombies, which v2 alone tells."""
    from zombiescope.probes.readers.cgroup_census import read_census  # noqa: PLC0415

    if hierarchy.version is HierarchyVersion.V1:
        return None
    census = read_census(host, hierarchy)
    return None if isinstance(census, Gap) else census.parents


def _plain(value: object) -> Any:
    match value:
        case Gap():
            return {"gap": list(value)}
        case Residuals():
            largest = sorted(value.by_parent.items(), key=lambda each: (-each[1].bytes_held, each[0]))
            parents = [[shown(path), list(use)] for path, use in largest]
            others = [[shown(path) for path in paths] for paths in (value.unsplit, value.garbled)]
            return {"parents": parents, "others": others}
        case Sweep():
            return list(value)
        case EmptyDirectories():
            return [value.leaves, value.seen, value.empty, [shown(path) for path in value.examples]]
        case Backlog():
            return {"makers": value.by_maker, "swapped": value.swapped}
        case list():
            return [list(each) for each in value]
        case _:
            raise TypeError(type(value).__name__)


def residuals_of(plain: Any) -> Residuals | Gap:
    if "gap" in plain:
        return Gap(*plain["gap"])
    parents = {unshown(path): MemoryUse(*use) for path, use in plain["parents"]}
    return Residuals(parents, *(frozenset(map(unshown, paths)) for paths in plain["others"]))


def sweep_of(plain: Any) -> Sweep | Gap:
    return Gap(*plain["gap"]) if isinstance(plain, dict) else Sweep(*plain)


def own_sweep(found: Mapping[str, Any], now: float) -> tuple[Occurrence, ...]:
    """The agent's own sweep is an event like anybody's, where it took as long as one that could starve a core."""
    sweep = sweep_of(found["sweep"][1])
    if isinstance(sweep, Gap) or sweep.seconds < _LONG_SWEEP_SECONDS:
        return ()
    since = sum(found[name][0] for name in ("sweep", "empty", "restarts") if name in found)
    words = f"zombiescope agent: {sweep.seconds:.1f} s, {sweep.cgroups:,} cgroups"
    return (Occurrence(now - since, "stat-sweep", words),)


def empty_directories_of(plain: Any) -> EmptyDirectories | Gap:
    if isinstance(plain, dict):
        return Gap(*plain["gap"])
    leaves, seen, empty, examples = plain
    return EmptyDirectories(leaves, seen, empty, tuple(map(unshown, examples)))


def makers_of(plain: Any) -> dict[str, int] | Gap:
    return Gap(*plain["gap"]) if "gap" in plain else dict(plain["makers"])


def restarts_of(plain: Any) -> list[UnitRestarts] | Gap:
    return Gap(*plain["gap"]) if isinstance(plain, dict) else [UnitRestarts(*each) for each in plain]


def swapped_of(plain: Any) -> int | None:
    """Zombies that keep their id in the kernel by pages in swap; None where the walk could not tell."""
    found = plain.get("swapped")
    return None if found is None else int(found)
