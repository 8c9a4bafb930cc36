# SPDX-License-Identifier: Apache-2.0
"""How hard the machine looks for memory: /proc/vmstat, the pressure files (PSI), and kswapd's time on a core."""

from __future__ import annotations

import re
from collections.abc import Iterable

from zombiescope.facts.cgroups import Hierarchy, HierarchyVersion
from zombiescope.facts.gap import Gap
from zombiescope.facts.reclaim import NO_GROUPS, PressureLook, Stalls
from zombiescope.host.access import Host
from zombiescope.probes.kernel_text import number, refusal, stall_totals
from zombiescope.probes.processes import parse_stat, read_processes

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
_USER, _SYSTEM = 11, 12


def find_kswapd(host: Host) -> tuple[int, ...]:
    """Kernel threads are among the first processes: the search ends at the first that is none of theirs, after them."""
    processes = read_processes(host, FACT)
    found: list[int] = []
    for process in () if isinstance(processes, Gap) else processes:
        try:
            state = parse_stat(host.read(b"/proc/%d/stat" % process))
        except OSError:
            continue
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
        try:
            fields = host.read(b"/proc/%d/stat" % process).rpartition(b")")[2].split()
        except OSError:
            continue
        ticks = [number(fields[i]) if len(fields) > i else None for i in (_USER, _SYSTEM)]
        if ticks[0] is not None and ticks[1] is not None:
            total = (total or 0.0) + (ticks[0] + ticks[1]) / _TICKS_PER_SECOND
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
