# SPDX-License-Identifier: Apache-2.0
"""Sockets that may hold a dead memory cgroup: a socket keeps the one it was made in until it is closed.

v2: internet sockets tell their cgroup's id, so one of a dead cgroup is proof; unix sockets tell nothing. v1: only sockets made
below a TCP limit (memory.kmem.tcp.limit_in_bytes) are accounted, and an idle one holds a cgroup without a byte.
"""

from __future__ import annotations

from zombiescope.facts.cgroups import Hierarchy, HierarchyVersion
from zombiescope.facts.gap import Gap
from zombiescope.facts.page_pins import DeadCgroupSocket, SocketCandidates
from zombiescope.host.access import Host
from zombiescope.host.live import LiveHost
from zombiescope.kernel.mount_paths import open_files
from zombiescope.kernel.network import DiagSocket, sockets_of
from zombiescope.probes.cgroups import children_seen, inodes_of
from zombiescope.probes.kernel_text import number, refusal
from zombiescope.probes.processes import read_processes

_FACT = "zombies[].pins"
_TCP = b"memory.kmem.tcp.usage_in_bytes"
_UNIX = b"/proc/net/unix"


def read_socket_pins(host: Host, hierarchy: Hierarchy) -> SocketCandidates | Gap:
    gaps: list[Gap] = []
    if hierarchy.version is HierarchyVersion.V1:
        return _v1(host, hierarchy, gaps)
    if not isinstance(host, LiveHost):
        return Gap(_FACT, "a recording cannot be asked for its sockets", "run zombiescope on the host itself")
    processes = read_processes(host, _FACT)
    if isinstance(processes, Gap):
        return processes
    seen = _sockets(host, processes, gaps)
    live = _live_ids(host, hierarchy) if seen else set()
    if isinstance(live, Gap):
        return live
    # Sockets made by the kernel itself, or before cgroups were asked for, carry 0 or the root's id.
    dead = [each for each in seen if each.cgroup > 1 and each.cgroup not in live]
    holders = _holders(host, processes, {each.inode for each in dead}) if dead else {}
    unix = _unix_count(host, gaps)
    return SocketCandidates(tuple(_dead(each, holders) for each in dead), unix, {}, tuple(gaps))


def _v1(host: Host, hierarchy: Hierarchy, gaps: list[Gap]) -> SocketCandidates | Gap:
    try:
        used = _unaccounted(host, hierarchy)
    except FileNotFoundError:
        return Gap(_FACT, f"{_TCP.decode()} is not there: this kernel does not account sockets on cgroup v1")
    except OSError as error:
        return refusal(_FACT, error.filename or hierarchy.place(b"/", _TCP), error)
    reason = "cgroup v1 does not tell which cgroup a socket was made in; only buffers in use are counted"
    gaps.append(Gap(_FACT, reason, "allow BPF or /proc/kcore"))
    return SocketCandidates((), None, used, tuple(gaps))


def _unaccounted(host: Host, hierarchy: Hierarchy) -> dict[bytes, int]:
    """Top down, entering only directories with buffers in use."""
    found: dict[bytes, int] = {}
    pending = [(b"/", number(host.read(hierarchy.place(b"/", _TCP))) or 0)]
    while pending:
        path, used = pending.pop()
        below = (
            [(child, _used(host, hierarchy, child)) for child in children_seen(host, hierarchy, path)] if used else []
        )
        rest = used - sum(amount for _, amount in below)
        if rest > 0:
            found[path] = rest
        pending += [entry for entry in below if entry[1]]
    return found


def _used(host: Host, hierarchy: Hierarchy, path: bytes) -> int:
    try:
        return number(host.read(hierarchy.place(path, _TCP))) or 0
    except OSError:  # removed meanwhile
        return 0


def _sockets(host: LiveHost, processes: list[int], gaps: list[Gap]) -> list[DiagSocket]:
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
    if failure is not None or refused:
        reason = failure.strerror if failure else f"{refused} processes did not tell theirs"
        gaps.append(Gap(_FACT, f"not every network namespace could be asked for its sockets: {reason}", "run as root"))
    return found


def _live_ids(host: Host, hierarchy: Hierarchy) -> set[int] | Gap:
    try:
        paths = host.directories(hierarchy.mount_point).paths
    except OSError as error:
        return refusal(_FACT, hierarchy.mount_point, error)
    return {inode for _, inode in inodes_of(host, hierarchy, paths)}


def _holders(host: LiveHost, processes: list[int], inodes: set[int]) -> dict[int, list[int]]:
    wanted = {b"socket:[%d]" % inode: inode for inode in inodes}
    found: dict[int, list[int]] = {}
    for process in processes:
        try:
            for _, name in open_files(host.root + b"/proc/%d" % process):
                if name in wanted:
                    found.setdefault(wanted[name], []).append(process)
        except OSError:
            continue
    return found


def _dead(each: DiagSocket, holders: dict[int, list[int]]) -> DeadCgroupSocket:
    return DeadCgroupSocket(*each, tuple(dict.fromkeys(holders.get(each.inode, ()))))


def _unix_count(host: Host, gaps: list[Gap]) -> int | None:
    try:
        count = max(len(host.read(_UNIX).splitlines()) - 1, 0)
    except OSError as error:
        gaps.append(refusal(_FACT, _UNIX, error))
        return None
    if count:
        gaps.append(Gap(_FACT, f"{count} unix sockets do not tell the cgroup they were made in", "allow BPF or kcore"))
    return count
