# SPDX-License-Identifier: Apache-2.0
"""Live cgroups: their directories (the children of one, and which of them has which inode; any may be gone a moment later), the
rows of /proc/cgroups with the number of cgroups of each hierarchy, zombies included, where hierarchies are mounted, in which cgroup
a process is; and which hierarchy owns memory, from the mount table and /proc/cgroups, never from a file system's name.

A row in /proc/cgroups with a hierarchy number other than 0 means v1. A row with 0, or no row at all (kernels built without
MEMCG_V1 hide it), says nothing by itself: then `memory` in a cgroup2 mount's cgroup.controllers means v2.
"""

import errno
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from zombiescope.facts.cgroups import Hierarchy, HierarchyVersion
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.host.access import Host, answers, read_or_nothing
from zombiescope.probes.kernel_text import number, quoted, read_or_gap, refusal, unoctal

_TYPES, _SYMBOLS, _FUNCTION = b"/sys/kernel/btf/vmlinux", b"/proc/kallsyms", b"lru_reparent_memcg"
_MOST_BYTES = 128 << 20


def hands_pages_on(host: Host) -> bool:
    """False where nothing tells: kernels that do it have both files."""
    return bool(is_told_to_hand_on(host))


def is_told_to_hand_on(host: Host) -> bool | None:
    """None where a recording did not keep it."""
    outcome = host.experiment("hands_pages_on", lambda: {"hands_pages_on": _look(host)})
    return None if outcome is None else bool(outcome.get("hands_pages_on"))


def _look(host: Host) -> bool:
    """Type information first: it is a plain file, and the table of symbols is written anew for each reader."""
    if types := read_or_nothing(host, _TYPES, _MOST_BYTES):
        return b"\0" + _FUNCTION + b"\0" in types
    return b" " + _FUNCTION + b"\n" in read_or_nothing(host, _SYMBOLS, _MOST_BYTES)


class ControllerRow(NamedTuple):
    hierarchy: int
    cgroups: int
    is_enabled: bool


def read_controller_row(host: Host, controller: bytes = b"memory") -> ControllerRow | Gap:
    """The controller's row in /proc/cgroups. A missing row is a gap: it does not mean that there are no cgroups."""
    if isinstance(text := read_or_gap(host, b"/proc/cgroups", "memcg.counted"), Gap):
        return text
    for line in text.split(b"\n"):
        fields = line.split()
        if len(fields) == 4 and fields[0] == controller:
            values = [number(field) for field in fields[1:]]
            if values[0] is None or values[1] is None or values[2] is None:
                return Gap(
                    "memcg.counted", f"/proc/cgroups: the {shown(controller)} row is not readable: {quoted(line)}"
                )
            return ControllerRow(values[0], values[1], values[2] != 0)
    if not text.startswith(b"#subsys_name"):
        return Gap("memcg.counted", "/proc/cgroups is empty or not in a form we know")
    return Gap(
        "memcg.counted",
        f"/proc/cgroups has no {shown(controller)} row",
        "kernels built without MEMCG_V1 hide it; on cgroup v2 cgroup.stat has the count",
    )


_DELETED = b" (deleted)"


class Membership(NamedTuple):
    path: bytes
    is_deleted: bool


def unified_cgroup(text: bytes) -> Membership | None:
    """A live directory whose name ends in ` (deleted)` reads the same as a dead one: the caller asks whether it exists."""
    for line in text.split(b"\n"):
        number, _, rest = line.partition(b":")
        controllers, separator, path = rest.partition(b":")
        if separator and path.startswith(b"/") and number == b"0" and not controllers:
            return Membership(path.removesuffix(_DELETED), path.endswith(_DELETED))
    return None


GONE = (errno.ENOENT, errno.ENODEV)


def children_of(host: Host, hierarchy: Hierarchy, path: bytes) -> list[bytes]:
    """Paths of the live children; none of a cgroup that is gone. Any other refusal is raised."""
    try:
        return [path.rstrip(b"/") + b"/" + name for name in host.subdirectories(hierarchy.place(path))]
    except OSError as error:
        if error.errno in GONE:
            return []
        raise


def inodes_of(host: Host, hierarchy: Hierarchy, paths: Iterable[bytes]) -> Iterator[tuple[bytes, int]]:
    """Of those that are still there, and where a recording kept it."""
    for path in paths:
        try:
            inode = host.inode(hierarchy.place(path))
        except OSError:
            continue
        if inode is not None:
            yield path, inode


def paths_by_inode(host: Host, hierarchy: Hierarchy, paths: Iterable[bytes]) -> dict[int, bytes]:
    return {inode: path for path, inode in inodes_of(host, hierarchy, paths)}


class CgroupMount(NamedTuple):
    root: bytes
    point: bytes
    is_v2: bool
    options: frozenset[bytes]


def read_cgroup_mounts(host: Host, fact: str) -> list[CgroupMount] | Gap:
    """In order of mounting; none where no cgroup file system is mounted."""
    failure: Gap | None = None
    # Mount points are those of the reading process on this host; on a host mounted elsewhere they are those of its init.
    order = (b"/proc/self/mountinfo", b"/proc/1/mountinfo")
    for path in order if host.label == "this host" else reversed(order):
        try:
            return [mount for mount in map(_parse_mount, host.read(path).split(b"\n")) if mount]
        except OSError as error:
            failure = failure or refusal(fact, path, error)
    return failure or Gap(fact, "no mount table could be read")


def _parse_mount(line: bytes) -> CgroupMount | None:
    before, separator, after = line.partition(b" - ")
    left, right = before.split(b" "), after.split(b" ")
    if not separator or len(left) < 6 or len(right) < 3 or right[0] not in (b"cgroup", b"cgroup2"):
        return None
    root, point = unoctal(left[3]), unoctal(left[4])
    if not point.startswith(b"/") or b"\0" in point:
        return None
    return CgroupMount(root, point, right[0] == b"cgroup2", frozenset(right[2].split(b",")))


HIERARCHY_FACT = "memcg.hierarchy"
_ROOT_INODE = 1
_CONFINED = "a security module such as SELinux refuses it: run outside of the domain that it confines (ausearch -m avc)"


def read_memory_hierarchy(host: Host) -> Hierarchy | Gap:
    if isinstance(mounts := read_cgroup_mounts(host, HIERARCHY_FACT), Gap):
        return mounts
    row = read_controller_row(host)
    if isinstance(row, ControllerRow) and not row.is_enabled:
        return Gap(HIERARCHY_FACT, "the memory controller is off", "boot without cgroup_disable=memory")
    is_hybrid = any(mount.is_v2 for mount in mounts) and any(not mount.is_v2 for mount in mounts)
    v1 = [mount for mount in mounts if not mount.is_v2 and b"memory" in mount.options]
    if v1:
        return _whole_or_partial(host, HierarchyVersion.V1, v1, is_hybrid)
    if isinstance(row, ControllerRow) and row.hierarchy != 0:
        return Gap(
            HIERARCHY_FACT,
            f"memory is on cgroup v1 (hierarchy {row.hierarchy}), but that hierarchy is not mounted in this view",
            "run on the host itself, or give the host's root with --root",
        )
    offers = [(mount, _offers_memory(host, mount)) for mount in mounts if mount.is_v2]
    v2 = [mount for mount, offer in offers if offer is True]
    if v2:
        return _whole_or_partial(host, HierarchyVersion.V2, v2, is_hybrid)
    if refused := [offer for _, offer in offers if isinstance(offer, Gap)]:
        return refused[0]
    if not mounts:
        return Gap(
            HIERARCHY_FACT, "no cgroup file system is mounted in this view", "mount one, or run on the host itself"
        )
    return Gap(
        HIERARCHY_FACT, "no mounted cgroup hierarchy has the memory controller", "boot a kernel with memory cgroups"
    )


def _offers_memory(host: Host, mount: CgroupMount) -> bool | Gap:
    """A gap where nobody lets us see it: a security module, or a folder over the mount."""
    path = mount.point.rstrip(b"/") + b"/cgroup.controllers"
    try:
        return b"memory" in host.read(path).split()
    except PermissionError as error:  # anybody may read it, so it is no matter of being root
        return refusal(HIERARCHY_FACT, path, error)._replace(hint=_CONFINED)
    except OSError as error:
        return refusal(HIERARCHY_FACT, path, error)


def _whole_or_partial(host: Host, version: HierarchyVersion, mounts: list[CgroupMount], is_hybrid: bool) -> Hierarchy:
    """The mount that shows most: one of the whole hierarchy if there is any."""
    views = [(_why_partial(host, mount), mount) for mount in mounts]
    why, mount = next((view for view in views if not view[0]), views[0])
    return Hierarchy(version, mount.point, is_hybrid, why)


def _why_partial(host: Host, mount: CgroupMount) -> str:
    if mount.root != b"/":
        return (
            f"{shown(mount.point)} shows only {shown(mount.root)} of the hierarchy (a bind mount or a cgroup namespace)"
        )
    try:
        inode = host.inode(mount.point)
    except OSError as error:
        return f"{shown(mount.point)} cannot be opened in this view: {error.strerror}"
    if inode is not None and inode != _ROOT_INODE:
        return f"the top of {shown(mount.point)} is not the root cgroup (inode {inode}): this is a cgroup namespace"
    # The true root of v2 has neither file [every kernel: CFTYPE_NOT_ON_ROOT]; the root of a cgroup namespace has both.
    files = (mount.point + b"/" + name for name in (b"cgroup.type", b"cgroup.events"))
    if not mount.is_v2 or not any(answers(host.read, file) for file in files):
        return ""
    return f"the top of {shown(mount.point)} is not the root cgroup (it has cgroup.type): this is a cgroup namespace"
