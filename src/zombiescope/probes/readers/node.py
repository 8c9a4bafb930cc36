# SPDX-License-Identifier: Apache-2.0
"""Who the machine is and how large its per-CPU structures are: /proc/sys/kernel, /proc/uptime, possible CPUs and nodes."""

from __future__ import annotations

import json
import re
from typing import Any

from zombiescope.facts.cgroups import Hierarchy, HierarchyVersion, Identity, Shape
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.facts.reaping import Health
from zombiescope.host.access import Host
from zombiescope.host.live import cluster_of
from zombiescope.probes.kernel_text import cpu_list_count, flat_keyed, number, refusal

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


_CPUS = b"/sys/devices/system/cpu/possible"
_NODES = b"/sys/devices/system/node/possible"


def read_identity(host: Host) -> Identity:
    gaps: list[Gap] = []
    name = _line(host, b"/proc/sys/kernel/hostname", "host.name", gaps)
    kernel = _line(host, b"/proc/sys/kernel/osrelease", "host.kernel", gaps)
    boot_id = _line(host, b"/proc/sys/kernel/random/boot_id", "host.boot_id", gaps)
    uptime = _line(host, b"/proc/uptime", "host.uptime_seconds", gaps)
    seconds = _seconds(uptime)
    if uptime is not None and seconds is None:
        gaps.append(Gap("host.uptime_seconds", "/proc/uptime is not in a form we know"))
    return Identity(name, kernel, boot_id, seconds, tuple(gaps), cluster_of(host))


def read_shape(host: Host) -> Shape:
    gaps: list[Gap] = []
    cpus = _count(host, _CPUS, gaps)
    nodes = _count(host, _NODES, gaps)
    if nodes is None and cpus is not None and not _has_nodes(host):
        # A kernel without NUMA has no such folder: one node.
        gaps.pop()
        nodes = 1
    return Shape(cpus, nodes, tuple(gaps))


def _has_nodes(host: Host) -> bool:
    try:
        host.read(_NODES)
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return True


def _count(host: Host, path: bytes, gaps: list[Gap]) -> int | None:
    try:
        text = host.read(path)
    except OSError as error:
        gaps.append(refusal("cost.kernel_bytes", path, error))
        return None
    count = cpu_list_count(text)
    if count is None:
        gaps.append(Gap("cost.kernel_bytes", f"{shown(path)} is not a list of numbers"))
    return count


def _line(host: Host, path: bytes, fact: str, gaps: list[Gap]) -> str | None:
    try:
        text = host.read(path).strip()
    except OSError as error:
        gaps.append(refusal(fact, path, error))
        return None
    if not text:
        gaps.append(Gap(fact, f"{shown(path)} is empty"))
        return None
    return shown(text)


def _seconds(text: str | None) -> float | None:
    try:
        value = float((text or "").split(" ")[0])
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


_CLOUD = b"/run/cloud-init/instance-data.json"
_RELEASES = (b"/etc/os-release", b"/usr/lib/os-release")
_CLOUD_NAMES = ("ami-id", "ami_id", "image_id", "image-id", "image")
_ZONE_NAMES = ("availability_zone", "availability-zone", "availabilityZone", "zone")
_DOCUMENTS = (("ds", "meta_data"), ("ds", "dynamic", "instance-identity", "document"))
_LONGEST = 100


def read_node_image(host: Host) -> str:
    """Empty where nothing tells."""
    return (_from_cloud(host) or _from_release(host))[:_LONGEST]


def read_node_zone(host: Host) -> str:
    """Empty where nothing tells."""
    return _told_by_cloud(host, (("v1",), *_DOCUMENTS), _ZONE_NAMES)[:_LONGEST]


def _from_cloud(host: Host) -> str:
    return _told_by_cloud(host, _DOCUMENTS, (*_CLOUD_NAMES, "imageId"))


def _told_by_cloud(host: Host, places: tuple[tuple[str, ...], ...], names: tuple[str, ...]) -> str:
    try:
        told = json.loads(host.read(_CLOUD))
    except (OSError, ValueError, RecursionError):
        return ""
    for place in places:
        part: Any = told
        for name in place:
            part = part.get(name) if isinstance(part, dict) else None
        if isinstance(part, dict):
            for name in names:
                value = part.get(name)
                if isinstance(value, str) and value:
                    return shown(value.encode("utf-8", "surrogatepass"))
    return ""


def _from_release(host: Host) -> str:
    for path in _RELEASES:
        try:
            text = host.read(path)
        except OSError:
            continue
        said = dict(line.split(b"=", 1) for line in text.splitlines() if b"=" in line)
        for names in ((b"IMAGE_ID", b"IMAGE_VERSION"), (b"ID", b"VERSION_ID")):
            words = [shown(said.get(name, b"").strip(b"\"' \t\r")) for name in names]
            if words[0]:
                return " ".join(word for word in words if word)
    return ""
