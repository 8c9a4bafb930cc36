# SPDX-License-Identifier: Apache-2.0
"""Builders for tests: machines as plain files (v1, v2, hybrid), a host that follows a script, and facts.

A machine is a mapping from path to content. `ScriptedHost` serves one from memory, `write_machine` lays one out as a folder.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from zombiescope.analysis.scan import derive_scan
from zombiescope.diagnosis.case import Case, Observation
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.facts.cgroups import (
    Census,
    CountSource,
    EmptyDirectories,
    Hierarchy,
    HierarchyVersion,
    Identity,
    LiveTree,
    Look,
    MemoryUse,
    Residuals,
    Shape,
    Snapshot,
    Sweep,
)
from zombiescope.facts.gap import Gap
from zombiescope.host.access import READ_LIMIT_BYTES, DirectoryWalk

Machine = dict[bytes, bytes]
V1_MOUNT = b"/sys/fs/cgroup/memory"
V2_MOUNT = b"/sys/fs/cgroup"
HYBRID_V2_MOUNT = b"/sys/fs/cgroup/unified"


class Use(NamedTuple):
    """Bytes by kind; what MemoryUse is to the reader, this is to the machine."""

    file: int = 0
    shmem: int = 0
    anon: int = 0
    swap: int = 0
    unevictable: int = 0

    def plus(self, other: Use) -> Use:
        return Use(*(a + b for a, b in zip(self, other, strict=True)))


NOTHING = Use()


@dataclass(frozen=True, slots=True)
class Cgroup:
    """A live cgroup, and what its dead children (those it is the nearest live parent of) hold."""

    own: Use = NOTHING
    dead: Use = NOTHING
    zombies: int = 0
    procs: bytes = b"1\n"
    hands_memory_on: bool = True


def mountinfo(*mounts: tuple[bytes, bytes, bytes, bytes]) -> bytes:
    """(type, mount point, root, super options) each, after a line that is no cgroup at all."""
    lines = [b"22 1 8:1 / / rw,relatime - ext4 /dev/root rw"]
    for number, (kind, point, root, options) in enumerate(mounts, 30):
        lines.append(b"%d 22 0:%d %s %s rw,nosuid - %s %s %s" % (number, number, root, point, kind, kind, options))
    return b"\n".join(lines) + b"\n"


def proc_cgroups(memory: int | None, hierarchy: int = 4, enabled: int = 1) -> bytes:
    rows = [b"#subsys_name\thierarchy\tnum_cgroups\tenabled", b"cpuset\t2\t1\t1"]
    if memory is not None:
        rows.append(b"memory\t%d\t%d\t%d" % (hierarchy, memory, enabled))
    return b"\n".join(rows) + b"\n"


def node_files() -> Machine:
    files = {
        b"/proc/sys/kernel/hostname": b"build-7\n",
        b"/proc/sys/kernel/osrelease": b"6.1.0-built\n",
        b"/proc/sys/kernel/random/boot_id": b"11111111-2222-3333-4444-555555555555\n",
        b"/proc/uptime": b"3600.50 7000.00\n",
        b"/sys/devices/system/cpu/possible": b"0-3\n",
        b"/sys/devices/system/node/possible": b"0\n",
    }
    return dict(files)


def total_use(groups: Mapping[bytes, Cgroup], path: bytes) -> Use:
    """At and below a path, the dead included."""
    total = NOTHING
    for other, group in groups.items():
        if path in (other, b"/") or other.startswith(path + b"/"):
            total = total.plus(group.own).plus(group.dead)
    return total


def total_zombies(groups: Mapping[bytes, Cgroup], path: bytes) -> int:
    return sum(
        group.zombies for other, group in groups.items() if path in (other, b"/") or other.startswith(path + b"/")
    )


def v1_stat(own: Use, total: Use, *, with_swap: bool = True) -> bytes:
    lines = []
    for prefix, use in (("", own), ("total_", total)):
        lines += [f"{prefix}cache {use.file + use.shmem}", f"{prefix}rss {use.anon}", f"{prefix}shmem {use.shmem}"]
        lines += [f"{prefix}swap {use.swap}"] if with_swap else []
        lines += [f"{prefix}unevictable {use.unevictable}"]
    return "\n".join(lines).encode() + b"\n"


def v2_stat(total: Use) -> bytes:
    lines = [f"anon {total.anon}", f"file {total.file + total.shmem}", f"shmem {total.shmem}"]
    return "\n".join([*lines, f"unevictable {total.unevictable}"]).encode() + b"\n"


def v1_machine(groups: Mapping[bytes, Cgroup] | None = None, *, hybrid: bool = False) -> Machine:
    """Memory on v1; `hybrid` mounts a v2 hierarchy without memory beside it."""
    everyone = {b"/": Cgroup(), **(groups or {})}
    mounts = [(b"cgroup", V1_MOUNT, b"/", b"rw,memory"), (b"cgroup", b"/sys/fs/cgroup/cpu", b"/", b"rw,cpu")]
    machine = node_files()
    if hybrid:
        mounts.append((b"cgroup2", HYBRID_V2_MOUNT, b"/", b"rw"))
        machine[HYBRID_V2_MOUNT + b"/cgroup.controllers"] = b"hugetlb\n"
    machine[b"/proc/self/mountinfo"] = machine[b"/proc/1/mountinfo"] = mountinfo(*mounts)
    machine[b"/proc/cgroups"] = proc_cgroups(len(everyone) + total_zombies(everyone, b"/"))
    for path, group in everyone.items():
        place = V1_MOUNT + (path if path != b"/" else b"")
        machine[place + b"/memory.stat"] = v1_stat(group.own, total_use(everyone, path))
        machine[place + b"/memory.numa_stat"] = b"total=0\n"
        machine[place + b"/cgroup.procs"] = group.procs
    return machine


def cgroup_stat(live: int, dying: int, *, per_controller: bool) -> bytes:
    text = f"nr_descendants {live}\n" + (f"nr_subsys_memory {live + 1}\n" if per_controller else "")
    text += f"nr_dying_descendants {dying + (3 if per_controller else 0)}\n"
    return (text + (f"nr_dying_subsys_memory {dying}\n" if per_controller else "")).encode()


def v2_machine(
    groups: Mapping[bytes, Cgroup] | None = None, *, per_controller: bool = True, with_row: bool = True
) -> Machine:
    """Memory on v2; `per_controller` is the cgroup.stat of newer kernels, where other controllers hold three more."""
    everyone = {b"/": Cgroup(), **(groups or {})}
    machine = node_files()
    machine[b"/proc/self/mountinfo"] = machine[b"/proc/1/mountinfo"] = mountinfo((b"cgroup2", V2_MOUNT, b"/", b"rw"))
    count = len(everyone) + total_zombies(everyone, b"/")
    machine[b"/proc/cgroups"] = proc_cgroups(count if with_row else None, hierarchy=0)
    machine[V2_MOUNT + b"/cgroup.controllers"] = b"cpu memory pids\n"
    for path, group in everyone.items():
        place = V2_MOUNT + (path if path != b"/" else b"")
        below = sum(
            1 for other in everyone if other not in (path, b"/") and (other + b"/").startswith(path.rstrip(b"/") + b"/")
        )
        machine[place + b"/cgroup.stat"] = cgroup_stat(
            below, total_zombies(everyone, path), per_controller=per_controller
        )
        machine[place + b"/memory.stat"] = v2_stat(total_use(everyone, path))
        machine[place + b"/cgroup.subtree_control"] = b"memory\n" if group.hands_memory_on else b"\n"
        machine[place + b"/cgroup.procs"] = group.procs
        if path != b"/":
            machine[place + b"/memory.swap.current"] = b"%d\n" % total_use(everyone, path).swap
            machine[place + b"/cgroup.events"] = b"populated %d\nfrozen 0\n" % bool(group.procs.strip())
            machine[place + b"/cgroup.type"] = b"domain\n"
    return machine


def write_machine(folder: str | os.PathLike[str], machine: Mapping[bytes, bytes]) -> bytes:
    """Lays a machine out as a folder and returns its path."""
    root = os.fsencode(folder)
    for path, content in machine.items():
        place = root + path
        os.makedirs(os.path.dirname(place), exist_ok=True)
        if not path.endswith(b"/"):
            with open(place, "wb") as file:
                file.write(content)
    return root


Step = bytes | int
"""What a read gives: content, or the errno it fails with."""


@dataclass
class ScriptedHost:
    """A machine in memory. A file may have a list of successive answers, of which the last one stays; a path ending in `/` is an
    empty folder. Each wait plays the next of `moments`: what changes and, with None, what is gone with all in it."""

    files: Mapping[bytes, Step | list[Step]]
    moments: Iterable[Mapping[bytes, Step | list[Step] | None]] = ()
    is_live: bool = True
    label: str = "this host"
    inodes: Mapping[bytes, int] = field(default_factory=dict)
    seconds_per_read: float = 0.001
    after_walk: Callable[[ScriptedHost], None] = lambda host: None

    def __post_init__(self) -> None:
        self._now: dict[bytes, list[Step]] = {}
        self._moments = iter(self.moments)
        self.reads: list[bytes] = []
        self.waited = 0.0
        self.change(self.files)

    def change(self, files: Mapping[bytes, Step | list[Step] | None]) -> None:
        for path, steps in files.items():
            if steps is None:
                for gone in [known for known in self._now if known == path or known.startswith(path + b"/")]:
                    del self._now[gone]
            else:
                self._now[path] = list(steps) if isinstance(steps, list) else [steps]

    def read(self, path: bytes, limit: int = READ_LIMIT_BYTES) -> bytes:
        self.reads.append(path)
        steps = self._now.get(path)
        if not steps:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        step = steps.pop(0) if len(steps) > 1 else steps[0]
        if isinstance(step, int):
            raise OSError(step, os.strerror(step), path)
        if len(step) > limit:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), path)
        return step

    def _folders(self, path: bytes) -> set[bytes]:
        inside = [known[len(path) :] for known in self._now if known.startswith(path.rstrip(b"/") + b"/")]
        if not inside:
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)
        folders = {b"/"}
        for rest in inside:
            parts = rest.split(b"/")[1:-1]
            folders.update(b"/" + b"/".join(parts[: depth + 1]) for depth in range(len(parts)))
        return folders

    def subdirectories(self, path: bytes) -> list[bytes]:
        return sorted(folder[1:] for folder in self._folders(path) if folder != b"/" and folder.count(b"/") == 1)

    def directories(self, path: bytes) -> DirectoryWalk:
        paths = sorted(self._folders(path))
        inner = {folder.rpartition(b"/")[0] or b"/" for folder in paths if folder != b"/"}
        walk = DirectoryWalk(tuple(paths), tuple(folder for folder in paths if folder not in inner), ())
        self.after_walk(self)
        return walk

    def inode(self, path: bytes) -> int | None:
        return self.inodes.get(path, 1)

    def wait(self, seconds: float) -> None:
        self.waited += seconds
        self.change(next(self._moments, {}))

    def wall_clock(self) -> float:
        return 1_700_000_000.0 + self.waited

    def monotonic(self) -> float:
        return self.waited + len(self.reads) * self.seconds_per_read

    def experiment(self, name: str, work: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        return work() if self.is_live else None


V1 = Hierarchy(HierarchyVersion.V1, V1_MOUNT, is_hybrid=False, partial_view="")
V2 = Hierarchy(HierarchyVersion.V2, V2_MOUNT, is_hybrid=False, partial_view="")


def census(zombies: int, live: int = 10, *, parents: Mapping[bytes, int] | None = None) -> Census:
    looks = (Look(live + zombies + 2, live), Look(live + zombies, live)) if zombies else (Look(live, live),)
    if parents is not None:
        return Census(CountSource.CGROUP_STAT_SUBSYS, looks, None, parents)
    paths = (b"/", *(b"/g%d" % number for number in range(1, live)))
    return Census(CountSource.PROC_CGROUPS, looks, LiveTree(paths, paths[1:] or paths), None, (_ONLY_THE_TOTAL,))


_ONLY_THE_TOTAL = Gap(
    "parents[].zombies", "plain files give only the total on cgroup v1", "sudo zombiescope scan --exact"
)


def snapshot(
    zombies: int = 0, live: int = 10, *, empty: int = 0, parents: Mapping[bytes, int] | None = None, **changes: Any
) -> Snapshot:
    """A whole snapshot, v1 unless `parents` are given; `changes` replace single facts."""
    use = MemoryUse(file=4096, shmem=8192, anon=0, swap=0, unevictable=0)
    where = [b"/g1"] if parents is None else list(parents)
    facts: dict[str, Any] = {
        "taken_at": 1_700_000_000.25,
        "source": "this host",
        "identity": Identity("build-7", "6.1.0-built", "boot", 3600.5),
        "shape": Shape(4, 1),
        "hierarchy": V1 if parents is None else V2,
        "census": census(zombies, live, parents=parents),
        "residuals": Residuals(dict.fromkeys(where, use) if zombies else {}, frozenset()),
        "sweep": Sweep(0.012, live, live, "/sys/fs/cgroup/memory/memory.stat", 0.001),
        "empty_directories": EmptyDirectories(
            max(live - 1, empty), max(live - 1, empty), empty, (b"/g1",) if empty else ()
        ),
    }
    return Snapshot(**{**facts, **changes})


def observed(seen: Snapshot) -> Observation:
    return Observation(seen, derive_scan(seen))


def case(*seen: Snapshot) -> Case:
    return Case(tuple(observed(each) for each in seen), Thresholds())
