# SPDX-License-Identifier: Apache-2.0
"""Whether the machine can bear eviction: pressure (PSI, `some avg10`) and file pages read again since boot (/proc/vmstat)."""

from __future__ import annotations

import re

from zombiescope.facts.cgroups import Hierarchy, HierarchyVersion
from zombiescope.facts.gap import Gap
from zombiescope.facts.reaping import Health
from zombiescope.host.access import Host
from zombiescope.probes.kernel_text import flat_keyed, number, refusal

_SOME = re.compile(rb"^some avg10=([0-9]{1,3}\.[0-9]{1,3}) ", re.MULTILINE)


def read_machine_health(host: Host) -> Health:
    """Each figure or None: kernels may be built without PSI, and before 5.9 refaults were counted in one line."""
    return Health(
        host.monotonic(),
        _pressure(host, b"/proc/pressure/memory"),
        _pressure(host, b"/proc/pressure/io"),
        _refaults(host),
    )


def _pressure(host: Host, path: bytes) -> float | None:
    try:
        found = _SOME.search(host.read(path))
    except OSError:
        return None
    return float(found[1]) if found else None


def _refaults(host: Host) -> int | None:
    try:
        values = flat_keyed(host.read(b"/proc/vmstat"))
    except OSError:
        return None
    return values.get(b"workingset_refault_file", values.get(b"workingset_refault"))


_PATH = b"/proc/meminfo"


def read_memory_bytes(host: Host) -> int | Gap:
    try:
        text = host.read(_PATH)
    except OSError as error:
        return refusal("node.memory_bytes", _PATH, error)
    for line in text.split(b"\n"):
        key, _, value = line.partition(b":")
        if key == b"MemTotal":
            kibibytes = number(value.strip().removesuffix(b"kB"))
            if kibibytes:
                return kibibytes * 1024
    return Gap("node.memory_bytes", "/proc/meminfo has no MemTotal")


def read_reclaimable_cache(host: Host, hierarchy: Hierarchy, path: bytes) -> int | None:
    """Bytes; None where the cgroup cannot be asked, or does not tell."""
    if hierarchy.version is HierarchyVersion.V1:
        return None
    try:
        host.inode(hierarchy.place(path, b"memory.reclaim"))
        values = flat_keyed(host.read(hierarchy.place(path, b"memory.stat")))
    except OSError:
        return None
    file, shmem = values.get(b"file"), values.get(b"shmem")
    return None if file is None or shmem is None else max(file - shmem, 0)
