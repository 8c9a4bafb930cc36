# SPDX-License-Identifier: Apache-2.0
"""How hard the machine looks for memory: /proc/vmstat, the pressure files (PSI), and kswapd's time on a core."""

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from itertools import islice
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
from zombiescope.probes.kernel_text import (
    TICKS_PER_SECOND,
    number,
    read_or_gap,
    read_processes,
    refusal,
    stall_totals,
    state_of,
)

_LIMITS = (b"memory.max", b"memory.high", b"memory.limit_in_bytes")
_UNLIMITED_BYTES = 1 << 62
"""v1 writes the largest number of whole pages where there is none."""


def named_groups(host: Host, hierarchy: Hierarchy, groups: Mapping[int, tuple[int, int, float]]) -> list[list[Any]]:
    """Plain JSON: path, the limited ones at and above it, calls, pages, seconds on a core; the dearest first."""
    if not groups:
        return []
    paths = _paths(host, hierarchy, groups)

    @cache
    def is_limited(path: bytes) -> bool:
        return any(_limit(host, hierarchy.place(path, name)) for name in _LIMITS)

    rows = []
    for group, (calls, pages, seconds) in sorted(groups.items(), key=lambda each: -each[1][2]):
        if path := paths.get(group):
            above = [shown(place) for place in _at_and_above(path) if is_limited(place)]
            rows.append([shown(path), above, calls, pages, seconds])
    return rows


def _paths(host: Host, hierarchy: Hierarchy, wanted: Collection[int]) -> dict[int, bytes]:
    try:
        paths = host.directories(hierarchy.place(b"/")).paths
    except OSError:
        return {}
    found = ((inode, path) for path, inode in inodes_of(host, hierarchy, paths) if inode in wanted)
    return dict(islice(found, len(wanted)))  # no further than all are found


def _at_and_above(path: bytes) -> list[bytes]:
    """Without the root, which has no limit."""
    parts = path.strip(b"/").split(b"/") if path != b"/" else []
    return [b"/" + b"/".join(parts[:depth]) for depth in range(len(parts), 0, -1)]


def _limit(host: Host, file: bytes) -> bool:
    text = read_or_nothing(host, file).strip()
    return text.isdigit() and int(text) < _UNLIMITED_BYTES


PASSES_FACT, _VMSTAT = "reclaim", b"/proc/vmstat"
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
        if isinstance(watch, Gap) and watch.reason.startswith(_VMSTAT.decode()):
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
    if isinstance(said := read_or_gap(host, _VMSTAT, PASSES_FACT), Gap):
        return said
    if not host.is_live:
        return _NOT_HERE
    try:
        return ReclaimPasses(host.wall_clock)
    except ObservationError as error:
        return Gap(PASSES_FACT, error.why, error.hint)


def _kept(outcome: dict[str, Any]) -> ReclaimSeen:
    kinds = tuple(_calls(kind, outcome["kinds"][kind]) for kind in ReclaimKind)
    groups = tuple(
        ReclaimGroup(str(path), tuple(str(limit) for limit in limits), int(calls), int(pages), float(cpu_seconds))
        for path, limits, calls, pages, cpu_seconds in outcome.get("groups", ())
    )
    return ReclaimSeen(float(outcome["seconds"]), kinds, int(outcome["unseen"]), groups)


def _calls(kind: ReclaimKind, plain: Any) -> ReclaimCalls:
    calls, fruitless, pages, seconds, cpu, longest, when, buckets = plain
    return ReclaimCalls(
        kind, int(calls), int(fruitless), int(pages), float(seconds), float(cpu), float(longest),
        None if when is None else float(when), Histogram(tuple(int(count) for count in buckets)),
    )  # fmt: skip


FACT = "pressure"
_WANTED = (
    "pgscan_kswapd", "pgscan_direct", "pgscan_khugepaged", "pgscan_proactive", "pgscan_anon", "pgscan_file", "pgsteal_kswapd",
    "pgsteal_direct", "pgmajfault", "oom_kill", "allocstall_normal", "allocstall_movable",
)  # fmt: skip
# Picked out at once: the file has two hundred lines, and the agent reads it every ten seconds.
_PICKED = re.compile(rb"(?m)^(" + "|".join(_WANTED).encode() + rb") ([0-9]{1,20})$")
_PRESSURES = ("memory", "cpu", "io")
_KSWAPD = re.compile(rb"kswapd[0-9]{1,4}")


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
    if isinstance(text := read_or_gap(host, _VMSTAT, FACT), Gap):
        return text
    picked = _PICKED.findall(text)
    found = {name.decode(): value for name, digits in picked if (value := number(digits)) is not None}
    return found or Gap(FACT, f"{_VMSTAT.decode()} has none of the counters of reclaim")


def _stalls(host: Host) -> dict[str, float] | Gap:
    files = {name: b"/proc/pressure/" + name.encode() for name in _PRESSURES}
    found, gaps = _stalls_in(host, "pressure.stalls", files)
    untold = [Gap("pressure.stalls", "the pressure files have no totals"), *gaps][-1]
    return found or untold._replace(hint="boot with psi=1")


def _stalls_in(host: Host, fact: str, files: Mapping[str, bytes]) -> tuple[dict[str, float], list[Gap]]:
    """And which of them could not be read."""
    found, gaps = dict[str, float](), list[Gap]()
    for name, file in files.items():
        try:
            found |= {f"{name}.{kind}": seconds for kind, seconds in stall_totals(host.read(file)).items()}
        except OSError as error:
            gaps.append(refusal(fact, file, error))
    return found, gaps


def _kswapd_seconds(host: Host, kswapd: tuple[int, ...]) -> float | None:
    states = [state_of(host, process) for process in kswapd]
    seconds = [sum(state.cpu_ticks) / TICKS_PER_SECOND for state in states if state and state.cpu_ticks]
    return sum(seconds) if seconds else None


_ON_V1 = Gap(NO_GROUPS.fact, "cgroup v1 keeps no pressure by cgroup", "the machine's own: /proc/pressure")


def read_group_stalls(host: Host, hierarchy: Hierarchy | Gap, paths: Iterable[bytes]) -> dict[bytes, Stalls] | Gap:
    """By path; a cgroup that is gone is left out. A gap where none could be read, but not where none was asked for."""
    if isinstance(hierarchy, Gap):
        return hierarchy.about(NO_GROUPS.fact)
    if hierarchy.version is HierarchyVersion.V1:
        return _ON_V1
    found: dict[bytes, Stalls] = {}
    gaps: list[Gap] = []
    for path in paths:
        files = {name: hierarchy.place(path, name.encode() + b".pressure") for name in _PRESSURES}
        stalls, refused = _stalls_in(host, NO_GROUPS.fact, files)
        gaps += refused
        if stalls:
            found[path] = stalls
    return gaps[0] if gaps and not found else found
