# SPDX-License-Identifier: Apache-2.0
"""Which control files, swap areas, segments and managers a machine has. Files that can only be written are looked for, not read."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from zombiescope.facts.cgroups import Hierarchy, HierarchyVersion
from zombiescope.facts.gap import Gap
from zombiescope.facts.reaping import Levers, SwapArea
from zombiescope.host.access import NOT_RECORDED, Host
from zombiescope.probes.cgroups import hands_pages_on
from zombiescope.probes.kernel_text import number, refusal, unoctal

_CONTROL_FILES = (b"memory.reclaim", b"memory.high", b"memory.force_empty")
_NODES = b"/sys/devices/system/node"
_VENDOR_REAPER = b"/sys/kernel/mm/memcg_reaper/reap"
_SYSTEMD = b"/run/systemd/system"
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
    available, memory_gaps = _available(host)
    return Levers(
        hierarchy=hierarchy,
        control_files=frozenset(place for place in places if _is_there(host, place)),
        untold=untold,
        node_reclaim=_node_files(host),
        vendor_reaper=_VENDOR_REAPER if _is_there(host, _VENDOR_REAPER) else None,
        swaps=swaps,
        available_bytes=available,
        hands_pages_on=hands_pages_on(host),
        has_systemd=_is_there(host, _SYSTEMD),
        segments=_segments(host),
        gaps=(*swap_gaps, *memory_gaps, *([_UNTOLD] if untold else [])),
    )


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


def _is_there(host: Host, path: bytes) -> bool:
    try:
        host.inode(path)
    except OSError:
        return False
    return True


def _node_files(host: Host) -> tuple[bytes, ...]:
    try:
        names = host.subdirectories(_NODES)
    except OSError:
        return ()
    nodes = sorted(name for name in names if name.startswith(b"node") and name[4:].isdigit())
    return tuple(place for name in nodes if _is_there(host, place := b"%s/%s/reclaim" % (_NODES, name)))


def _swaps(host: Host) -> tuple[tuple[SwapArea, ...], tuple[Gap, ...]]:
    path = b"/proc/swaps"
    try:
        text = host.read(path)
    except OSError as error:
        return (), (refusal("levers.swaps", path, error),)
    areas = []
    for line in text.split(b"\n")[1:]:
        words = line.split()
        used = number(words[3]) if len(words) >= 5 else None
        if used is not None:
            areas.append(SwapArea(unoctal(words[0]), used * 1024))
    return tuple(areas), ()


def _available(host: Host) -> tuple[int | None, tuple[Gap, ...]]:
    path = b"/proc/meminfo"
    try:
        text = host.read(path)
    except OSError as error:
        return None, (refusal("levers.available_bytes", path, error),)
    for line in text.split(b"\n"):
        key, _, value = line.partition(b":")
        if key == b"MemAvailable":
            kibibytes = number(value.strip().removesuffix(b"kB"))
            if kibibytes is not None:
                return kibibytes * 1024, ()
    return None, (Gap("levers.available_bytes", "/proc/meminfo has no MemAvailable"),)


def _segments(host: Host) -> dict[int, int]:
    """Of our own IPC namespace: `key shmid perms size cpid lpid nattch …`."""
    try:
        lines = host.read(b"/proc/sysvipc/shm").split(b"\n")[1:]
    except OSError:
        return {}
    found = {}
    for line in lines:
        words = line.split()
        shmid, attached = (number(words[1]), number(words[6])) if len(words) > 6 else (None, None)
        if shmid is not None and attached is not None:
            found[shmid] = attached
    return found
