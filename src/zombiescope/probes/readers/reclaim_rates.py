# SPDX-License-Identifier: Apache-2.0
"""How hard the machine looks for memory: /proc/vmstat, the pressure files (PSI), and kswapd's time on a core."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from zombiescope.errors import ObservationError
from zombiescope.facts.cgroups import Hierarchy, HierarchyVersion
from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import Histogram
from zombiescope.facts.names import shown
from zombiescope.facts.plain import made_of_outcome
from zombiescope.facts.reclaim import (
    NO_GROUPS,
    PressureLook,
    ReclaimCalls,
    ReclaimGroup,
    ReclaimKind,
    ReclaimSeen,
    Stalls,
)
from zombiescope.host.access import Host, beside_recording, read_or_nothing
from zombiescope.kernel.bpf_windows import ReclaimPasses
from zombiescope.probes.cgroups import inodes_of
from zombiescope.probes.kernel_text import number, read_processes, refusal, stall_totals, state_of

_LIMITS = (b"memory.max", b"memory.high", b"memory.limit_in_bytes")
_UNLIMITED_BYTES = 1 << 62
"""v1 writes the largest number of whole pages where there is none."""


def named_groups(host: Host, hierarchy: Hierarchy, groups: Mapping[int, tuple[int, int, float]]) -> list[list[Any]]:
    """Plain JSON: path, the limited ones at and above it, calls, pages, seconds on a core; the dearest first."""
    if not groups:
        return []
    paths = _paths(host, hierarchy, set(groups))
    limited: dict[bytes, bool] = {}
    rows = []
    for group, (calls, pages, seconds) in sorted(groups.items(), key=lambda each: -each[1][2]):
        path = paths.get(group)
        if path is None:
            continue
        above = [place for place in _at_and_above(path) if _is_limited(host, hierarchy, place, limited)]
        rows.append([shown(path), [shown(place) for place in above], calls, pages, seconds])
    return rows


def _paths(host: Host, hierarchy: Hierarchy, wanted: set[int]) -> dict[int, bytes]:
    found: dict[int, bytes] = {}
    try:
        paths = host.directories(hierarchy.place(b"/")).paths
    except OSError:
        return found
    for path, inode in inodes_of(host, hierarchy, paths):
        if inode in wanted:
            found[inode] = path
            if len(found) == len(wanted):
                break
    return found


def _at_and_above(path: bytes) -> list[bytes]:
    """Without the root, which has no limit."""
    parts = path.strip(b"/").split(b"/") if path != b"/" else []
    return [b"/" + b"/".join(parts[:depth]) for depth in range(len(parts), 0, -1)]


def _is_limited(host: Host, hierarchy: Hierarchy, path: bytes, known: dict[bytes, bool]) -> bool:
    if path not in known:
        known[path] = any(_limit(host, hierarchy.place(path, name)) for name in _LIMITS)
    return known[path]


def _limit(host: Host, file: bytes) -> bool:
    text = read_or_nothing(host, file).strip()
    return text.isdigit() and int(text) < _UNLIMITED_BYTES


PASSES_FACT = "reclaim"
_PRESENCE = b"/proc/vmstat"
_NOT_HERE = Gap(
    PASSES_FACT, "nothing happens in a folder, and its recording kept no reclaim", "run it on the live host"
)
_GARBLED = Gap(PASSES_FACT, "the recorded reclaim is not in a form we know", "record the host again")


class ReclaimWindow:
    def __init__(self, host: Host, hierarchy: Hierarchy | Gap | None = None) -> None:
        """`hierarchy`: where the cgroups of those that reclaim are looked up; without it nobody is named."""
        self._host, self._hierarchy = host, hierarchy
        self._watch = _begin(host)

    def look(self) -> None:
        """The kernel counts by itself."""

    def seen(self) -> ReclaimSeen | Gap:
        """Of the window so far."""
        watch = self._watch
        if isinstance(watch, Gap) and watch.reason.startswith(_PRESENCE.decode()):
            return watch
        outcome = self._host.experiment("reclaim_passes", lambda: self._told(watch))
        return _NOT_HERE if outcome is None else made_of_outcome(outcome, _kept, _GARBLED)

    def _told(self, watch: ReclaimPasses | Gap) -> dict[str, Any]:
        if isinstance(watch, Gap):
            return {"gap": list(watch)}
        told = watch.read()
        if isinstance(self._hierarchy, Hierarchy):
            told["groups"] = named_groups(beside_recording(self._host), self._hierarchy, watch.groups())
        return told

    def close(self) -> None:
        if isinstance(self._watch, ReclaimPasses):
            self._watch.close()


def _begin(host: Host) -> ReclaimPasses | Gap:
    try:
        host.read(_PRESENCE)
    except OSError as error:
        return refusal(PASSES_FACT, _PRESENCE, error)
    if not host.is_live:
        return _NOT_HERE
    try:
        return ReclaimPasses(host.wall_clock)
    except ObservationError as error:
        return Gap(PASSES_FACT, error.why, error.hint)


def _kept(outcome: dict[str, Any]) -> ReclaimSeen:
    kinds = tuple(_calls(kind, outcome["kinds"][kind]) for kind in ReclaimKind)
    groups = tuple(_group(*plain) for plain in outcome.get("groups", ()))
    return ReclaimSeen(float(outcome["seconds"]), kinds, int(outcome["unseen"]), groups)


def _calls(kind: ReclaimKind, plain: Any) -> ReclaimCalls:
    calls, fruitless, pages, seconds, cpu, longest, when, buckets = plain
    return ReclaimCalls(
        kind, int(calls), int(fruitless), int(pages), float(seconds), float(cpu), float(longest),
        None if when is None else float(when), Histogram(tuple(int(count) for count in buckets)),
    )  # fmt: skip


def _group(path: Any, limits: Any, calls: Any, pages: Any, cpu_seconds: Any) -> ReclaimGroup:
    return ReclaimGroup(str(path), tuple(str(limit) for limit in limits), int(calls), int(pages), float(cpu_seconds))


FACT = "pressure"
_VMSTAT = b"/proc/vmstat"
_WANTED = (
    "pgscan_kswapd", "pgscan_direct", "pgscan_khugepaged", "pgscan_proactive", "pgscan_anon", "pgscan_file", "pgsteal_kswapd",
    "pgsteal_direct", "pgmajfault", "oom_kill", "allocstall_normal", "allocstall_movable",
)  # fmt: skip
# Picked out at once: the file has two hundred lines, and the agent reads it every ten seconds.
_PICKED = re.compile(rb"(?m)^(" + "|".join(_WANTED).encode() + rb") ([0-9]{1,20})$")
_PRESSURES = ("memory", "cpu", "io")
_KSWAPD = re.compile(rb"kswapd[0-9]{1,4}")
_TICKS_PER_SECOND = 100


def find_kswapd(host: Host) -> tuple[int, ...]:
    """Kernel threads are among the first processes: the search ends at the first that is none of theirs, after them."""
    processes = read_processes(host, FACT)
    found: list[int] = []
    for process in () if isinstance(processes, Gap) else processes:
        state = state_of(host, process)
        if state and state.parent == 2 and _KSWAPD.fullmatch(state.name):
            found.append(process)
        elif found and state and state.parent not in (0, 2):
            break
    return tuple(found)


def read_reclaim_rates(host: Host, kswapd: tuple[int, ...]) -> PressureLook:
    """A recording keeps the wall clock alone: its steady time stands still while looks are taken, however long they took."""
    at = host.wall_clock()
    steady = host.monotonic() if host.is_live else at
    return PressureLook(at, steady, _vmstat(host), _stalls(host), _kswapd_seconds(host, kswapd))


def _vmstat(host: Host) -> dict[str, int] | Gap:
    try:
        values = _PICKED.findall(host.read(_VMSTAT))
    except OSError as error:
        return refusal(FACT, _VMSTAT, error)
    found = {name.decode(): value for name, digits in values if (value := number(digits)) is not None}
    return found or Gap(FACT, f"{_VMSTAT.decode()} has none of the counters of reclaim")


def _stalls(host: Host) -> dict[str, float] | Gap:
    found: dict[str, float] = {}
    gap = Gap("pressure.stalls", "the pressure files have no totals", "boot with psi=1")
    for name in _PRESSURES:
        path = b"/proc/pressure/" + name.encode()
        try:
            text = host.read(path)
        except OSError as error:
            gap = refusal("pressure.stalls", path, error)._replace(hint="boot with psi=1")
            continue
        found |= {f"{name}.{kind}": seconds for kind, seconds in stall_totals(text).items()}
    return found or gap


def _kswapd_seconds(host: Host, kswapd: tuple[int, ...]) -> float | None:
    total = None
    for process in kswapd:
        state = state_of(host, process)
        if state and state.cpu_ticks:
            total = (total or 0.0) + sum(state.cpu_ticks) / _TICKS_PER_SECOND
    return total


_FILES = ("memory", "cpu", "io")
_ON_V1 = Gap(NO_GROUPS.fact, "cgroup v1 keeps no pressure by cgroup", "the machine's own: /proc/pressure")


def read_group_stalls(host: Host, hierarchy: Hierarchy | Gap, paths: Iterable[bytes]) -> dict[bytes, Stalls] | Gap:
    """By path; a cgroup that is gone is left out. A gap where none could be read, but not where none was asked for."""
    if isinstance(hierarchy, Gap):
        return hierarchy.about(NO_GROUPS.fact)
    if hierarchy.version is HierarchyVersion.V1:
        return _ON_V1
    found: dict[bytes, Stalls] = {}
    gap: Gap | None = None
    for path in paths:
        stalls: dict[str, float] = {}
        for name in _FILES:
            file = hierarchy.place(path, name.encode() + b".pressure")
            try:
                totals = stall_totals(host.read(file))
            except OSError as error:
                gap = gap or refusal(NO_GROUPS.fact, file, error)
                continue
            stalls |= {f"{name}.{kind}": seconds for kind, seconds in totals.items()}
        if stalls:
            found[path] = stalls
    return gap if gap and not found else found
