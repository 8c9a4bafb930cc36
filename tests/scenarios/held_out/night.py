# SPDX-License-Identifier: Apache-2.0
"""Patients of a night shift: drained nodes, timers that nobody remembers, old kernels on fast machines, small machines."""

from __future__ import annotations

from collections.abc import Callable

from tests.scenarios.facts import NOW, case, cores, flows, loop, pressure, real_time, services
from tests.scenarios.held_out.clinic import DAY, HOUR, Left, held
from tests.scenarios.speed import all_times

from zombiescope.diagnosis.case import Case
from zombiescope.facts.cgroups import Shape, Sweep
from zombiescope.facts.reclaim import ReclaimCalls, ReclaimGroup, ReclaimKind, ReclaimSeen
from zombiescope.facts.units import RealTimeTask


def drained_node() -> Case:
    remains = held(
        Left(
            "pod:7b1e2d3c-1111-4222-8333-00000000000a",
            2,
            {"page_cache": 2},
            "/kubepods.slice",
            since=130.0,
            until=120.0,
        ),
        Left("unit:old.service", 260, {"page_cache": 260}),
    )
    seen = flows(("pod:7b1e2d3c-1111-4222-8333-00000000000a", 0, 0, 38), ("unit:cron.service", 1, 1, 1))
    return all_times(case(262, live=140, remains=remains, grown=-38, flows=seen), 6.0)


def hourly_tmpfs() -> Case:
    left = Left("unit:rotate-keys.service", 1_296, {"tmpfs": 1_296}, since=54 * DAY, until=2_100.0)
    seen = services(timers=(("rotate-keys.service", "rotate-keys.timer"),))
    return case(1_301, live=310, remains=held(left, Left("session:0", 5, {"page_cache": 5})), services=seen)


def rootless_leak() -> Case:
    left = Left("session:1001", 2_200, {"memfd": 1_900, "page_cache": 300}, "/user.slice", since=21 * DAY, until=0.4)
    seen = flows(("session:1001", 15, 15, 1), ("unit:cron.service", 1, 1, 1))
    return case(2_200, live=95, remains=held(left, lately={"session:1001": 14}), grown=14, flows=seen)


def many_live_sweep() -> Case:
    sweep = Sweep(1.1, 12_000, 400, "/sys/fs/cgroup/memory/kubepods/memory.stat", 0.0009)
    return case(40, live=12_000, snapshot={"sweep": sweep})


def old_kernel_sweep() -> Case:
    left = Left("unit:collector.service", 31_000, {"page_cache": 31_000}, since=200 * DAY, until=12 * DAY)
    sweep = Sweep(3.2, 300, 180, "/sys/fs/cgroup/memory/kubepods/memory.numa_stat", 0.06)
    return case(31_000, live=300, remains=held(left), snapshot={"sweep": sweep}, cores=cores(user=2.0, system=1.5))


def two_limits_one_walk() -> Case:
    ours = ReclaimGroup("/lxc.payload/a", ("/lxc.payload",), 2_000, 128_000, 2.4)
    other = ReclaimGroup("/web/front", ("/web/front",), 2_000, 128_000, 0.1)
    kind = ReclaimCalls(ReclaimKind.LIMIT, 4_000, 0, 256_000, 2.6, 2.5, 0.004, NOW + 2)
    left = Left("container:lxc", 3_000, {"swap": 3_000}, "/lxc.payload", since=9 * DAY, until=HOUR)
    return case(
        3_000,
        live=210,
        remains=held(left),
        reclaim=ReclaimSeen(10.0, (kind,), groups=(ours, other)),
        pressure=pressure(stall=0.18),
    )


def hog_beside_zombies() -> Case:
    left = Left("unit:importer.service", 2_000, {"page_cache": 2_000}, since=60 * DAY, until=45 * DAY)
    hog = RealTimeTask(4_711, "audio-mix", "rr", 80, 9.4, 2)
    return case(2_000, live=260, remains=held(left), cores=cores(user=5.0), real_time=real_time(hog))


def tiny_machine() -> Case:
    remains = held(
        Left("unit:probe.service", 250, {"page_cache": 250}, since=5_100.0, until=8.0),
        Left("unit:old.service", 6, {"page_cache": 6}),
    )
    guilty = loop("probe.service", 255, every_seconds=20.0, why="180 automatic restarts in the last hour")
    return case(256, live=45, remains=remains, services=services(guilty), snapshot={"shape": Shape(1, 1)})


SCENARIOS: dict[str, Callable[[], Case]] = {
    "drained-node": drained_node,
    "hourly-tmpfs": hourly_tmpfs,
    "rootless-leak": rootless_leak,
    "many-live-sweep": many_live_sweep,
    "old-kernel-sweep": old_kernel_sweep,
    "two-limits-one-walk": two_limits_one_walk,
    "hog-beside-zombies": hog_beside_zombies,
    "tiny-machine": tiny_machine,
}
