# SPDX-License-Identifier: Apache-2.0
"""Live cgroups: their directories (the children of one, and which of them has which inode; any may be gone a moment later), the
rows of /proc/cgroups with the number of cgroups of each hierarchy, zombies included, where hierarchies are mounted, and in which
cgroup a process is."""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from zombiescope.facts.cgroups import Hierarchy
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.host.access import Host, read_or_nothing
from zombiescope.probes.kernel_text import number, quoted, refusal, unoctal

_TYPES, _SYMBOLS = b"/sys/kernel/btf/vmlinux", b"/proc/kallsyms"
_MOST_BYTES = 128 << 20
_FUNCTION = b"lru_reparent_memcg"


def hands_pages_on(host: Host) -> bool:
    """False where nothing tells: kernels that do it have both files."""
    return bool(is_told_to_hand_on(host))


def is_told_to_hand_on(host: Host) -> bool | None:
    """None where a recording did not keep it."""
    outcome = host.experiment("hands_pages_on", lambda: {"hands_pages_on": _look(host)})
    return None if outcome is None else bool(outcome.get("hands_pages_on"))


def _look(host: Host) -> bool:
    """Type information first: it is a plain file, and the table of symbols is written anew for each reader."""
    types = read_or_nothing(host, _TYPES, _MOST_BYTES)
    if types:
        return b"\0" + _FUNCTION + b"\0" in types
    return b" " + _FUNCTION + b"\n" in read_or_nothing(host, _SYMBOLS, _MOST_BYTES)


class ControllerRow(NamedTuple):
    hierarchy: int
    cgroups: int
    is_enabled: bool


def read_controller_row(host: Host, controller: bytes = b"memory") -> ControllerRow | Gap:
    """The controller's row in /proc/cgroups. A missing row is a gap: it does not mean that there are no cgroups."""
    path = b"/proc/cgroups"
    try:
        text = host.read(path)
    except OSError as error:
        return refusal("memcg.counted", path, error)
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
    prefix = b"" if path == b"/" else path
    try:
        return [prefix + b"/" + name for name in host.subdirectories(hierarchy.place(path))]
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
            text = host.read(path)
        except OSError as error:
            failure = failure or refusal(fact, path, error)
            continue
        return [mount for mount in map(_parse_mount, text.split(b"\n")) if mount]
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
