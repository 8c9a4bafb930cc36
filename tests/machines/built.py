# SPDX-License-Identifier: Apache-2.0
"""Machines that every reading command must get right, each with the reason why it is here.

Built, not recorded: their truth is known from the builder. Sizes are those of real incidents where size is the point.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tests.build import (
    V1_MOUNT,
    V2_MOUNT,
    Cgroup,
    Machine,
    ScriptedHost,
    Use,
    mountinfo,
    node_files,
    proc_cgroups,
    v1_machine,
    v1_stat,
    v2_machine,
)

from zombiescope.host.access import READ_LIMIT_BYTES

PAGE = 4096
EMPTY = b""


class Walking(ScriptedHost):
    """The incident's machine as a kernel of up to 5.4 to 5.8 would have it: v1's memory.numa_stat visits every descendant, the dead
    too, and of each ten counters of every CPU, once for the machine and once for each node. A replay: no such kernel runs here, and
    five nanoseconds for a counter far from the cache are an assumption, not a measurement."""

    DEAD = {b"": 68_440, b"/ecs": 68_400, b"/system.slice": 40}  # noqa: RUF012 (no field)
    CPUS, NODES, COUNTERS, SECONDS_A_COUNTER = 96, 2, 10, 5e-9
    walked = 0.0

    def read(self, path: bytes, limit: int = READ_LIMIT_BYTES) -> bytes:
        place, _, name = path.removeprefix(V1_MOUNT).rpartition(b"/")
        if name == b"memory.numa_stat":
            visits = self.DEAD.get(place, 0) * self.COUNTERS * self.CPUS * (1 + self.NODES)
            self.walked += visits * self.SECONDS_A_COUNTER
        return super().read(path, limit)

    def monotonic(self) -> float:
        return super().monotonic() + self.walked


class BuiltMachine(NamedTuple):
    name: str
    why: str
    build: Callable[[], Machine]
    zombies: int | None
    """The truth; None where the machine cannot be counted from this view."""
    host: Callable[[Machine], ScriptedHost] = ScriptedHost
    """How it answers."""


def _services() -> dict[bytes, Cgroup]:
    """A small healthy node with a leaking slice."""
    return {
        b"/system.slice": Cgroup(dead=Use(shmem=40 * PAGE, file=10 * PAGE), zombies=50),
        b"/system.slice/sshd.service": Cgroup(own=Use(anon=900 * PAGE, file=300 * PAGE)),
        b"/system.slice/agent.service": Cgroup(own=Use(anon=5000 * PAGE, file=2000 * PAGE)),
        b"/user.slice": Cgroup(dead=Use(file=3 * PAGE), zombies=1),
        b"/user.slice/user-1000.slice": Cgroup(own=Use(anon=700 * PAGE)),
    }


def _incident() -> Machine:
    """240 directories, 68,680 counted: the containers of one agent that never stops restarting."""
    groups = {
        b"/ecs": Cgroup(dead=Use(file=61_000 * PAGE, shmem=7_400 * PAGE), zombies=68_400, procs=EMPTY),
        b"/system.slice": Cgroup(dead=Use(file=40 * PAGE), zombies=40, procs=EMPTY),
    }
    groups |= {b"/ecs/task%03d" % number: Cgroup(own=Use(anon=2000 * PAGE)) for number in range(37)}
    groups |= {b"/system.slice/unit%03d.service" % number: Cgroup(own=Use(anon=500 * PAGE)) for number in range(200)}
    return v1_machine(groups)


def _incident_of_its_day() -> Machine:
    sizes = {b"/sys/devices/system/cpu/possible": b"0-95\n", b"/sys/devices/system/node/possible": b"0-1\n"}
    return _incident() | sizes | {b"/proc/sys/kernel/osrelease": b"5.4.0-replay\n"}


def _left_behind(count: int, zombies: int) -> Machine:
    """Directories without a process, never removed; and `zombies` dead ones beside them. Laid out directly: there are many."""
    machine = node_files()
    mounts = (b"cgroup", V1_MOUNT, b"/", b"rw,memory")
    machine[b"/proc/self/mountinfo"] = machine[b"/proc/1/mountinfo"] = mountinfo(mounts)
    machine[b"/proc/cgroups"] = proc_cgroups(count + 3 + zombies)
    busy, dead = Use(anon=1000 * PAGE), Use(shmem=zombies * PAGE)
    sizes = {b"": (Use(), busy.plus(dead)), b"/docker": (Use(), dead), b"/sshd": (busy, busy)}
    for path, (own, total) in sizes.items():
        machine[V1_MOUNT + path + b"/memory.stat"] = v1_stat(own, total)
        machine[V1_MOUNT + path + b"/memory.numa_stat"] = b"total=0\n"
        machine[V1_MOUNT + path + b"/cgroup.procs"] = b"1\n" if own.anon else EMPTY
    nothing = v1_stat(Use(), Use())
    for number in range(count):
        place = V1_MOUNT + b"/docker/%064x" % number
        machine[place + b"/memory.stat"] = nothing
        machine[place + b"/memory.numa_stat"] = b"total=0\n"
        machine[place + b"/cgroup.procs"] = EMPTY
    return machine


def _container_v1() -> Machine:
    machine = v1_machine({b"/worker": Cgroup(own=Use(anon=PAGE))})
    view = mountinfo((b"cgroup", V1_MOUNT, b"/docker/4f1c", b"rw,memory"))
    return machine | {b"/proc/self/mountinfo": view, b"/proc/1/mountinfo": view, b"/proc/cgroups": proc_cgroups(9_000)}


def _container_v2() -> Machine:
    """A cgroup namespace: the mount's root looks whole, but its top is not the root cgroup."""
    machine = v2_machine({b"/worker": Cgroup(own=Use(anon=PAGE))})
    machine[V2_MOUNT + b"/cgroup.type"] = b"domain\n"
    machine[V2_MOUNT + b"/cgroup.events"] = b"populated 1\nfrozen 0\n"
    return machine


def _no_controller() -> Machine:
    machine = v1_machine()
    return machine | {b"/proc/cgroups": proc_cgroups(1, hierarchy=0, enabled=0)}


def _many_cpus() -> Machine:
    machine = v2_machine(_services())
    sizes = {b"/sys/devices/system/cpu/possible": b"0-191\n", b"/sys/devices/system/node/possible": b"0-3\n"}
    return machine | sizes


def _leaking_v1() -> Machine:
    return v1_machine(_services())


def _leaking_v2() -> Machine:
    return v2_machine(_services())


_WHY_SUBSYS = "kernels from 6.12 count the memory controller's dying; three more cgroups are held by others"
_WHY_NO_ROW = "built without MEMCG_V1: /proc/cgroups has no memory row, which does not mean no zombies"
_WHY_BIND = "a bind mount shows a part: directories would be undercounted, so nothing is counted"
BUILT = (
    BuiltMachine("v1", "memory on cgroup v1: totals from /proc/cgroups, bytes by residual", _leaking_v1, 51),
    BuiltMachine(
        "hybrid",
        "v2 is mounted too, but memory is on v1: the mount table decides",
        lambda: v1_machine(_services(), hybrid=True),
        51,
    ),
    BuiltMachine("v2-subsys", _WHY_SUBSYS, _leaking_v2, 51),
    BuiltMachine(
        "v2-descendants",
        "kernels before 6.12 count only whole cgroups",
        lambda: v2_machine(_services(), per_controller=False),
        51,
    ),
    BuiltMachine("v2-no-row", _WHY_NO_ROW, lambda: v2_machine(_services(), with_row=False), 51),
    BuiltMachine("container-v1", _WHY_BIND, _container_v1, None),
    BuiltMachine("container-v2", "a cgroup namespace: its top is not the root cgroup", _container_v2, None),
    BuiltMachine("no-controller", "cgroup_disable=memory: a gap, not a zero", _no_controller, None),
    BuiltMachine("incident", "the case: 68,680 counted, 240 directories", _incident, 68_440),
    BuiltMachine(
        "incident-replay",
        "a replay, seen on no kernel here: the case on one that walks the dead for every read of memory.numa_stat",
        _incident_of_its_day,
        68_440,
        Walking,
    ),
    BuiltMachine(
        "visible-leak", "60,000 directories nobody removed: the other disease", lambda: _left_behind(60_000, 0), 0
    ),
    BuiltMachine("both-diseases", "5,000 directories and 12,000 zombies", lambda: _left_behind(5_000, 12_000), 12_000),
    BuiltMachine("192-cpus", "per-CPU memory makes a zombie dear where there are many CPUs", _many_cpus, 51),
)
