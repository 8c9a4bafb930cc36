# SPDX-License-Identifier: Apache-2.0
"""Cgroup namespaces other than the machine's first: /proc/PID/ns/cgroup, and bind mounts of one in the mount tables.

Each holds the cgroups its maker was in when it was made, for as long as a process, an open file or a mount keeps it. Which
cgroups those were the kernel does not tell from outside, so these are candidates.
"""

from __future__ import annotations

import re

from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.gap import Gap
from zombiescope.facts.page_free_pins import CgroupNamespace, CgroupNamespaces
from zombiescope.host.access import Host
from zombiescope.probes.kernel_text import refusal
from zombiescope.probes.memory_cgroup import memory_cgroup
from zombiescope.probes.mount_table import MountTable
from zombiescope.probes.processes import read_processes

MOST_EXAMPLES = 8
_FACT = "zombies[].pins"
_FIRST_NAMESPACE = 0xEFFFFFFB  # the inode every kernel gives to its first cgroup namespace [PROC_CGROUP_INIT_INO]
_MOUNTED = re.compile(rb"cgroup:\[([0-9]{1,10})\]")


class _Members:
    def __init__(self) -> None:
        self.processes: list[int] = []
        self.mounts: set[bytes] = set()
        self.cgroups: set[bytes] = set()

    def record(self, inode: int) -> CgroupNamespace:
        shorter = self.processes[:MOST_EXAMPLES]
        return CgroupNamespace(inode, tuple(shorter), tuple(sorted(self.mounts)), tuple(sorted(self.cgroups)))


def read_cgroup_namespaces(host: Host, hierarchy: Hierarchy) -> CgroupNamespaces | Gap:
    processes = read_processes(host, _FACT)
    if isinstance(processes, Gap):
        return processes
    found: dict[int, _Members] = {}
    refusals: list[Gap] = []
    tables: set[bytes] = set()
    for process in processes:
        folder = b"/proc/%d" % process
        try:
            inode = host.inode(folder + b"/ns/cgroup")
            if inode is not None and inode != _FIRST_NAMESPACE:
                _join(host, hierarchy, process, found.setdefault(inode, _Members()))
            tables.add(host.read(folder + b"/mountinfo"))
        except (FileNotFoundError, ProcessLookupError):
            continue
        except OSError as error:
            refusals.append(refusal(_FACT, folder + b"/ns/cgroup", error))
    for table in tables:
        for inode, point in _mounted(table):
            found.setdefault(inode, _Members()).mounts.add(point)
    if len(refusals) == len(processes):
        return refusals[0]
    return CgroupNamespaces(tuple(members.record(inode) for inode, members in found.items()), _gaps(refusals))


def _join(host: Host, hierarchy: Hierarchy, process: int, members: _Members) -> None:
    members.processes.append(process)
    membership = memory_cgroup(host.read(b"/proc/%d/cgroup" % process), hierarchy)
    if membership is not None and len(members.cgroups) < MOST_EXAMPLES:
        members.cgroups.add(membership.path)


def _mounted(table: bytes) -> list[tuple[int, bytes]]:
    found = []
    if b" nsfs " in table:
        for mount in MountTable(table).mounts:
            match = _MOUNTED.fullmatch(mount.root) if mount.fstype == "nsfs" else None
            if match and int(match[1]) != _FIRST_NAMESPACE:
                found.append((int(match[1]), mount.point))
    return found


def _gaps(refusals: list[Gap]) -> tuple[Gap, ...]:
    if not refusals:
        return ()
    first = refusals[0]
    reason = f"{len(refusals)} processes did not tell their namespace, such as {first.reason}"
    return (first._replace(reason=reason),)
