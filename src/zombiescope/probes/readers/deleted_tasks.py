# SPDX-License-Identifier: Apache-2.0
"""Processes whose memory cgroup was removed under them: mostly children that ended and that their parent never waits for.

v2: /proc/PID/cgroup ends in ` (deleted)`. v1 shows every ended process at the root, whatever became of its cgroup, so there an
unreaped one is only a candidate. A process on its way out reads the same for a moment: a second look must find it too.
"""

from __future__ import annotations

import re

from zombiescope.facts.cgroups import Hierarchy, HierarchyVersion
from zombiescope.facts.gap import Gap
from zombiescope.facts.page_pins import CgroupNamespace, CgroupNamespaces, DeletedTask, DeletedTasks
from zombiescope.host.access import Host
from zombiescope.kernel.mount_paths import MountTable
from zombiescope.probes.cgroups import memory_cgroup, unified_cgroup
from zombiescope.probes.kernel_text import refusal
from zombiescope.probes.processes import parse_stat, read_processes

SECONDS_BETWEEN_LOOKS = 0.2
_FACT = "zombies[].pins"


def read_deleted_tasks(host: Host, hierarchy: Hierarchy) -> DeletedTasks | Gap:
    processes = read_processes(host, _FACT)
    if isinstance(processes, Gap):
        return processes
    refusals: dict[int, Gap] = {}
    found = [task for task in (_look(host, hierarchy, process, refusals) for process in processes) if task]
    if len(refusals) == len(processes):
        return next(iter(refusals.values()))
    gaps = (_some_refused(refusals),) if refusals else ()
    if not found:
        return DeletedTasks((), gaps)
    host.wait(SECONDS_BETWEEN_LOOKS)
    again = (_look(host, hierarchy, task.process, {}) for task in found)
    lasting = (task for task, before in zip(again, found, strict=True) if task and task.cgroup == before.cgroup)
    return DeletedTasks(tuple(lasting), gaps)


def _some_refused(refusals: dict[int, Gap]) -> Gap:
    first = next(iter(refusals.values()))
    return first._replace(reason=f"{len(refusals)} processes did not tell their cgroup, such as {first.reason}")


def _look(host: Host, hierarchy: Hierarchy, process: int, refusals: dict[int, Gap]) -> DeletedTask | None:
    folder = b"/proc/%d" % process
    try:
        status = parse_stat(host.read(folder + b"/stat"))
        if status is None or (hierarchy.version is HierarchyVersion.V1 and status.state != "Z"):
            return None
        text = host.read(folder + b"/cgroup")
    except (FileNotFoundError, ProcessLookupError):
        return None
    except OSError as error:
        refusals[process] = refusal(_FACT, folder + b"/cgroup", error)
        return None
    unified = unified_cgroup(text)
    former = unified.path if unified and unified.is_deleted else None
    if hierarchy.version is HierarchyVersion.V1:
        return DeletedTask(None, former, process, *status[:3])
    if former is None or _is_live(host, hierarchy, former + b" (deleted)"):
        return None
    return DeletedTask(former, None, process, *status[:3])


def _is_live(host: Host, hierarchy: Hierarchy, path: bytes) -> bool:
    """Somebody may call a directory so."""
    try:
        host.subdirectories(hierarchy.place(path))
    except OSError:
        return False
    return True


MOST_EXAMPLES = 8
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
