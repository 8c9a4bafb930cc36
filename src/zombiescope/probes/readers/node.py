# SPDX-License-Identifier: Apache-2.0
"""Who the machine is and how large its per-CPU structures are: /proc/sys/kernel, /proc/uptime, possible CPUs and nodes; and which
control files, swap areas, segments and managers it has. Files that can only be written are looked for, not read."""

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from zombiescope.facts.cgroups import Hierarchy, HierarchyVersion, Identity, Shape
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.facts.reaping import Health, Levers, SwapArea
from zombiescope.host.access import NOT_RECORDED, Host, answers, names_or_nothing, read_or_nothing
from zombiescope.host.live import cluster_of
from zombiescope.probes.cgroups import hands_pages_on
from zombiescope.probes.kernel_text import cpu_list_count, flat_keyed, number, read_or_gap, unoctal

_SOME = re.compile(rb"^some avg10=([0-9]{1,3}\.[0-9]{1,3}) ", re.MULTILINE)


def read_machine_health(host: Host) -> Health:
    """Each figure or None: kernels may be built without PSI, and before 5.9 refaults were counted in one line."""
    vmstat = flat_keyed(read_or_nothing(host, b"/proc/vmstat"))
    return Health(
        host.monotonic(),
        _pressure(host, b"/proc/pressure/memory"),
        _pressure(host, b"/proc/pressure/io"),
        vmstat.get(b"workingset_refault_file", vmstat.get(b"workingset_refault")),
    )


def _pressure(host: Host, path: bytes) -> float | None:
    found = _SOME.search(read_or_nothing(host, path))
    return float(found[1]) if found else None


def read_memory_bytes(host: Host) -> int | Gap:
    fact = "node.memory_bytes"
    return _meminfo(host, b"MemTotal", fact) or Gap(fact, "/proc/meminfo has no MemTotal")


def _meminfo(host: Host, wanted: bytes, fact: str) -> int | Gap:
    """In bytes."""
    if isinstance(text := read_or_gap(host, b"/proc/meminfo", fact), Gap):
        return text
    for line in text.split(b"\n"):
        key, _, value = line.partition(b":")
        kibibytes = number(value.strip().removesuffix(b"kB")) if key == wanted else None
        if kibibytes is not None:
            return kibibytes * 1024
    return Gap(fact, f"/proc/meminfo has no {wanted.decode()}")


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


_CPUS, _POSSIBLE_NODES = b"/sys/devices/system/cpu/possible", b"/sys/devices/system/node/possible"


_IDENTITY = (
    (b"/proc/sys/kernel/hostname", "host.name"),
    (b"/proc/sys/kernel/osrelease", "host.kernel"),
    (b"/proc/sys/kernel/random/boot_id", "host.boot_id"),
    (b"/proc/uptime", "host.uptime_seconds"),
)


def read_identity(host: Host) -> Identity:
    gaps: list[Gap] = []
    name, kernel, boot_id, uptime = (_line(host, path, fact, gaps) for path, fact in _IDENTITY)
    seconds = _seconds(uptime)
    if uptime is not None and seconds is None:
        gaps.append(Gap("host.uptime_seconds", "/proc/uptime is not in a form we know"))
    return Identity(name, kernel, boot_id, seconds, tuple(gaps), cluster_of(host))


def read_shape(host: Host) -> Shape:
    gaps: list[Gap] = []
    cpus = _count(host, _CPUS, gaps)
    nodes = _count(host, _POSSIBLE_NODES, gaps)
    if nodes is None and cpus is not None and not _has_nodes(host):
        # A kernel without NUMA has no such folder: one node.
        gaps.pop()
        nodes = 1
    return Shape(cpus, nodes, tuple(gaps))


def _has_nodes(host: Host) -> bool:
    try:
        host.read(_POSSIBLE_NODES)
    except OSError as error:
        return not isinstance(error, FileNotFoundError)
    return True


def _count(host: Host, path: bytes, gaps: list[Gap]) -> int | None:
    if isinstance(text := read_or_gap(host, path, "cost.kernel_bytes"), Gap):
        gaps.append(text)
        return None
    if (count := cpu_list_count(text)) is None:
        gaps.append(Gap("cost.kernel_bytes", f"{shown(path)} is not a list of numbers"))
    return count


def _line(host: Host, path: bytes, fact: str, gaps: list[Gap]) -> str | None:
    text = read_or_gap(host, path, fact)
    if isinstance(text, Gap) or not text.strip():
        gaps.append(text if isinstance(text, Gap) else Gap(fact, f"{shown(path)} is empty"))
        return None
    return shown(text.strip())


def _seconds(text: str | None) -> float | None:
    try:
        value = float((text or "").split(" ")[0])
    except ValueError:
        return None
    return value if 0 <= value < float("inf") else None


_CLOUD = b"/run/cloud-init/instance-data.json"
_RELEASES = (b"/etc/os-release", b"/usr/lib/os-release")
_CLOUD_NAMES = ("ami-id", "ami_id", "image_id", "image-id", "image", "imageId")
_ZONE_NAMES = ("availability_zone", "availability-zone", "availabilityZone", "zone")
_DOCUMENTS = (("ds", "meta_data"), ("ds", "dynamic", "instance-identity", "document"))
_LONGEST = 100


def read_node_image(host: Host) -> str:
    """Empty where nothing tells."""
    return (_told_by_cloud(host, _DOCUMENTS, _CLOUD_NAMES) or _from_release(host))[:_LONGEST]


def read_node_zone(host: Host) -> str:
    """Empty where nothing tells."""
    return _told_by_cloud(host, (("v1",), *_DOCUMENTS), _ZONE_NAMES)[:_LONGEST]


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
        said = dict(line.split(b"=", 1) for line in read_or_nothing(host, path).splitlines() if b"=" in line)
        for names in ((b"IMAGE_ID", b"IMAGE_VERSION"), (b"ID", b"VERSION_ID")):
            words = [shown(said.get(name, b"").strip(b"\"' \t\r")) for name in names]
            if words[0]:
                return " ".join(word for word in words if word)
    return ""


_CONTROL_FILES = (b"memory.reclaim", b"memory.high", b"memory.force_empty")
_NODES = b"/sys/devices/system/node"
_VENDOR_REAPER, _SYSTEMD = b"/sys/kernel/mm/memcg_reaper/reap", b"/run/systemd/system"
_MOST_PARENTS = 1000
_UNTOLD = Gap(
    "levers.control_files",
    "the recording does not tell which reclaim files there are, so nothing is planned that would need them or do without",
    "zombiescope plan on the host, or record it again with this version",
)


def read_levers(host: Host, hierarchy: Hierarchy, parents: Iterable[bytes]) -> Levers:
    asked = list(parents)[:_MOST_PARENTS]
    places = [hierarchy.place(parent, name) for parent in asked for name in _CONTROL_FILES]
    untold = frozenset(parent for parent in asked if _is_untold(host, hierarchy, parent))
    swaps, swap_gaps = _swaps(host)
    available = _meminfo(host, b"MemAvailable", "levers.available_bytes")
    return Levers(
        hierarchy=hierarchy,
        control_files=frozenset(place for place in places if answers(host.inode, place)),
        untold=untold,
        node_reclaim=_node_files(host),
        vendor_reaper=_VENDOR_REAPER if answers(host.inode, _VENDOR_REAPER) else None,
        swaps=swaps,
        available_bytes=None if isinstance(available, Gap) else available,
        hands_pages_on=hands_pages_on(host),
        has_systemd=answers(host.inode, _SYSTEMD),
        segments=_segments(host),
        gaps=(*swap_gaps, *([available] if isinstance(available, Gap) else []), *([_UNTOLD] if untold else [])),
    )


def read_layers(host: Host, folders: Iterable[bytes]) -> dict[bytes, bool]:
    """Whether a container writes or wrote into a layer: overlayfs makes a folder of its own beside what it is mounted to write to;
    images are unpacked without. Those that cannot be looked at are left out."""
    return {folder: answers(host.inode, folder + b"/work/work") for folder in folders if answers(host.inode, folder)}


def _is_untold(host: Host, hierarchy: Hierarchy, parent: bytes) -> bool:
    """Nobody asked when the recording was made: for none of the files, or of the nodes for the root of v1."""
    if hierarchy.version is HierarchyVersion.V1 and parent == b"/":
        return _was_not_asked(host.subdirectories, _NODES)
    return all(_was_not_asked(host.inode, hierarchy.place(parent, name)) for name in _CONTROL_FILES)


def _was_not_asked(question: Callable[[bytes], object], path: bytes) -> bool:
    try:
        question(path)
    except OSError as error:
        return error.strerror == NOT_RECORDED
    return False


def _node_files(host: Host) -> tuple[bytes, ...]:
    found = names_or_nothing(host, _NODES)
    nodes = sorted(name for name in found if name.startswith(b"node") and name[4:].isdigit())
    return tuple(place for name in nodes if answers(host.inode, place := b"%s/%s/reclaim" % (_NODES, name)))


def _swaps(host: Host) -> tuple[tuple[SwapArea, ...], tuple[Gap, ...]]:
    if isinstance(text := read_or_gap(host, b"/proc/swaps", "levers.swaps"), Gap):
        return (), (text,)
    rows = (line.split() for line in text.split(b"\n")[1:])
    told = ((unoctal(row[0]), number(row[3])) for row in rows if len(row) >= 5)
    return tuple(SwapArea(name, used * 1024) for name, used in told if used is not None), ()


def _segments(host: Host) -> dict[int, int]:
    """Of our own IPC namespace: `key shmid perms size cpid lpid nattch …`."""
    rows = (line.split() for line in read_or_nothing(host, b"/proc/sysvipc/shm").split(b"\n")[1:])
    told = ((number(row[1]), number(row[6])) for row in rows if len(row) > 6)
    return {shmid: attached for shmid, attached in told if shmid is not None and attached is not None}
