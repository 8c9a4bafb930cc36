# SPDX-License-Identifier: Apache-2.0
"""Processes and sockets that may hold a dead memory cgroup, and who has which file open. v2: /proc/PID/cgroup of a process whose
cgroup was removed ends in ` (deleted)`; v1 shows every ended process at the root, so there an unreaped one is only a candidate. One
on its way out reads the same for a moment: a second look must find it too. A socket keeps the cgroup it was made in until it is
closed. v2: internet sockets tell its id, which is proof; unix sockets tell nothing. v1: none tells.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from zombiescope.facts.cgroups import Hierarchy, HierarchyVersion
from zombiescope.facts.gap import Gap
from zombiescope.facts.page_pins import (
    DeadCgroupSocket,
    DeletedTask,
    DeletedTasks,
    SocketCandidates,
)
from zombiescope.facts.zombies import HeldBy
from zombiescope.host.access import Host, answers
from zombiescope.host.files import FileKey, files_in_use, keys_in_maps
from zombiescope.host.live import LiveHost
from zombiescope.kernel.mount_paths import device_of, open_files
from zombiescope.kernel.network import DiagSocket, sockets_of
from zombiescope.probes.cgroups import paths_by_inode, unified_cgroup
from zombiescope.probes.kernel_text import parse_stat, read_processes, refusal, who_is

SECONDS_BETWEEN_LOOKS = 0.2
_FACT = "zombies[].pins"


def read_deleted_tasks(host: Host, hierarchy: Hierarchy) -> DeletedTasks | Gap:
    if isinstance(processes := read_processes(host, _FACT), Gap):
        return processes
    refusals: dict[int, Gap] = {}
    found = [task for task in (_look(host, hierarchy, process, refusals) for process in processes) if task]
    if len(refusals) == len(processes):
        return next(iter(refusals.values()))
    gaps = tuple(refusals.values())[:1]
    if gaps:
        reason = f"{len(refusals)} processes did not tell their cgroup, such as {gaps[0].reason}"
        gaps = (gaps[0]._replace(reason=reason),)
    if not found:
        return DeletedTasks((), gaps)
    host.wait(SECONDS_BETWEEN_LOOKS)
    again = (_look(host, hierarchy, task.process, {}) for task in found)
    lasting = (task for task, before in zip(again, found, strict=True) if task and task.cgroup == before.cgroup)
    return DeletedTasks(tuple(lasting), gaps)


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
    if former is None or answers(host.subdirectories, hierarchy.place(former + b" (deleted)")):
        return None  # somebody may call a directory so
    return DeletedTask(former, None, process, *status[:3])


_HOLDER_FACT = "zombies[].pins[].holder"


def read_shared_memory_holders(host: Host, wanted: Mapping[FileKey, bytes]) -> dict[FileKey, HeldBy] | Gap:
    """`wanted`: each with its last name, by which an open file is recognised before it is looked at."""
    if not isinstance(host, LiveHost):
        return Gap(_HOLDER_FACT, "a recording does not keep who has which file open", "run it on the host itself")
    if isinstance(processes := read_processes(host, _HOLDER_FACT), Gap):
        return processes
    missing, found, names = set(wanted), {}, frozenset(wanted.values()) - {b""}
    for process in processes:
        if not missing:
            break
        if held := _mapped(host, process, missing) | _opened(host, process, missing, names):
            found.update(dict.fromkeys(held, who_is(host, process)))
            missing -= held
    return found


def _mapped(host: LiveHost, process: int, wanted: set[FileKey]) -> set[FileKey]:
    try:
        return keys_in_maps(host.read(b"/proc/%d/maps" % process, limit=64 << 20)) & wanted
    except OSError:
        return set()


def _opened(host: LiveHost, process: int, wanted: set[FileKey], names: frozenset[bytes]) -> set[FileKey]:
    held = set()
    with suppress(OSError):
        for link, name in open_files(host.root + b"/proc/%d" % process):
            if name.startswith(b"/memfd:") or name.endswith(b" (deleted)") or name.rpartition(b"/")[2] in names:
                held.add((device_of(link), host.inode(link.removeprefix(host.root)) or 0))
    return held & wanted


_FILES_FACT = "steps[].change.files"


class FilesInUse(NamedTuple):
    holders: Mapping[bytes, HeldBy]
    """By path."""
    gaps: tuple[Gap, ...] = ()


def read_files_in_use(host: Host, wanted: Mapping[FileKey, bytes], known: int = 0) -> FilesInUse:
    """`wanted`: paths by device and inode; `known`: files beside them whose user the walk named."""
    if not isinstance(host, LiveHost):
        why = "a recording does not keep who has which file open"
        if known:
            of = f"{known:,} of {known + len(wanted):,} files in memory"
            why = f"the recording names a user of {of}; who has the rest open it does not keep"
        return FilesInUse({}, (Gap(_FILES_FACT, why, "run it on the host"),))
    try:
        seen = files_in_use(wanted, host.root + b"/proc")
    except OSError as error:
        return FilesInUse({}, (refusal(_FILES_FACT, b"/proc", error),))
    holders = {wanted[key]: who for key, who in seen.holders.items()}
    if not seen.unread:
        return FilesInUse(holders)
    some = "1 process" if seen.unread == 1 else f"{seen.unread:,} processes"
    why = f"{some} could not be looked into: what is open there may be listed for deletion"
    return FilesInUse(
        holders, (Gap(_FILES_FACT, why, "apply asks the kernel once more and leaves alone what is in use"),)
    )


def read_socket_pins(host: Host, hierarchy: Hierarchy) -> SocketCandidates | Gap:
    if hierarchy.version is HierarchyVersion.V1:
        return Gap(
            _FACT,
            "cgroup v1 does not tell which cgroup a socket was made in; only buffers in use are counted",
            "allow BPF or /proc/kcore",
        )
    if not isinstance(host, LiveHost):
        return Gap(_FACT, "a recording cannot be asked for its sockets", "run zombiescope on the host itself")
    if isinstance(processes := read_processes(host, _FACT), Gap):
        return processes
    seen, gaps = _sockets(host, processes)
    live = _live_ids(host, hierarchy) if seen else set()
    if isinstance(live, Gap):
        return live
    # Sockets made by the kernel itself, or before cgroups were asked for, carry 0 or the root's id.
    dead = [each for each in seen if each.cgroup > 1 and each.cgroup not in live]
    holders = _holders(host, processes, {each.inode for each in dead}) if dead else {}
    return SocketCandidates(
        tuple(DeadCgroupSocket(*each, tuple(dict.fromkeys(holders.get(each.inode, ())))) for each in dead), gaps
    )


def _sockets(host: LiveHost, processes: list[int]) -> tuple[list[DiagSocket], tuple[Gap, ...]]:
    namespaces: dict[int, bytes] = {}
    refused = 0
    for process in processes:
        link = b"/proc/%d/ns/net" % process
        try:
            namespaces.setdefault(host.inode(link) or 0, link)
        except (FileNotFoundError, ProcessLookupError):
            continue
        except OSError:
            refused += 1
    found: list[DiagSocket] = []
    failure: OSError | None = None
    for link in namespaces.values():
        try:
            found += sockets_of(host.root + link)
        except OSError as error:
            failure = error
    if failure is None and not refused:
        return found, ()
    reason = failure.strerror if failure else f"{refused} processes did not tell theirs"
    return found, (Gap(_FACT, f"not every network namespace could be asked for its sockets: {reason}", "run as root"),)


def _live_ids(host: Host, hierarchy: Hierarchy) -> set[int] | Gap:
    try:
        return set(paths_by_inode(host, hierarchy, host.directories(hierarchy.mount_point).paths))
    except OSError as error:
        return refusal(_FACT, hierarchy.mount_point, error)


def _holders(host: LiveHost, processes: list[int], inodes: set[int]) -> dict[int, list[int]]:
    wanted = {b"socket:[%d]" % inode: inode for inode in inodes}
    found: dict[int, list[int]] = {}
    for process in processes:
        with suppress(OSError):
            for _, name in open_files(host.root + b"/proc/%d" % process):
                if name in wanted:
                    found.setdefault(wanted[name], []).append(process)
    return found
