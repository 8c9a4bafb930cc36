# SPDX-License-Identifier: Apache-2.0
"""Who the machine is and how large its per-CPU structures are: /proc/sys/kernel, /proc/uptime, possible CPUs and nodes."""

from __future__ import annotations

import json
from typing import Any

from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.facts.node import Identity, Shape
from zombiescope.host.access import Host
from zombiescope.host.told import cluster_of
from zombiescope.probes.kernel_text import cpu_list_count, refusal

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
