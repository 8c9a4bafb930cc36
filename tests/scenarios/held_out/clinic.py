# SPDX-License-Identifier: Apache-2.0
"""Patients as operators meet them: other speeds, sizes and mixtures than those that the rules were written for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from tests.scenarios.built_verdicts import UNSEEN
from tests.scenarios.facts import (
    ACTIONS,
    NOW,
    case,
    cores,
    flows,
    kernel_log,
    loop,
    oom,
    pressure,
    reset,
    services,
    softirq,
    stretch,
    unneeded,
)
from tests.scenarios.speed import all_times

from zombiescope.diagnosis.case import Case
from zombiescope.facts.cgroups import Shape, Sweep
from zombiescope.facts.cores import CoresSeen, CoreTime, CoreUse
from zombiescope.facts.gap import Gap
from zombiescope.facts.reclaim import ReclaimCalls, ReclaimGroup, ReclaimKind, ReclaimSeen, ThrottledGroup
from zombiescope.facts.zombies import MakerRemains, PinExample, Remains

HOUR, DAY = 3_600.0, 86_400.0
NO_BPF = Gap("flows", "BPF is refused, and tracefs is not mounted", "run it as root on the host")
BILLING = loop(
    "billing-sync.service", 3_024, every_seconds=1_200.0, why="3 automatic restarts in the last hour, 3,024 since boot"
)


class Left(NamedTuple):
    """By one maker, below one live parent."""

    maker: str
    zombies: int
    pins: Mapping[str, int]
    parent: str = "/system.slice"
    since: float = 8 * DAY
    until: float = HOUR
    """Seconds ago: the first and the last of them were born."""


def held(*left: Left, lately: Mapping[str, int] | None = None) -> Remains:
    makers = tuple(
        MakerRemains(
            each.maker, each.zombies, each.pins, NOW - each.since, NOW - each.until, {each.parent: each.zombies}
        )
        for each in sorted(left, key=lambda one: -one.zombies)
    )
    by_pin: dict[str, int] = {}
    parents: dict[str, int] = {}
    for each in left:
        parents[each.parent] = parents.get(each.parent, 0) + each.zombies
        for kind, count in each.pins.items():
            by_pin[kind] = by_pin.get(kind, 0) + count
    actions = {kind: {ACTIONS[kind]: count} for kind, count in by_pin.items()}
    examples = tuple(PinExample(kind, each.maker, f"/srv/{kind}/1") for each in left for kind in each.pins)
    total = sum(each.zombies for each in left)
    return Remains(NOW, "bpf", total, makers, by_pin, actions, examples, parents, lately or {})


def at_limit(limit: str, calls: int, pages: int, seconds: float, *, longest: float, fruitless: int = 0) -> ReclaimSeen:
    """Of one job, in a window of ten seconds."""
    kind = ReclaimCalls(ReclaimKind.LIMIT, calls, fruitless, pages, seconds * 1.1, seconds, longest, NOW + 2)
    return ReclaimSeen(10.0, (kind,), groups=(ReclaimGroup(f"{limit}/job", (limit,), calls, pages, seconds),))


def large_host(count: int, held_core: int, seconds: float) -> CoresSeen:
    """Every core a third busy in user mode, and one for so long in the kernel."""
    calm, worst = CoreTime(user=3.0, system=0.2, idle=6.8), CoreTime(user=1.0, system=seconds, idle=9.0 - seconds)
    uses = tuple(CoreUse(core, worst if core == held_core else calm) for core in range(count))
    return CoresSeen(NOW, 10.0, 0.1, count, (stretch(seconds, core=held_core),), uses)


def slow_loop() -> Case:
    remains = held(
        Left("unit:billing-sync.service", 3_019, {"page_cache": 3_019}, since=42 * DAY, until=610.0),
        Left("session:0", 9, {"page_cache": 9}),
    )
    return case(
        3_028,
        live=180,
        remains=remains,
        services=services(BILLING),
        cores=cores(user=1.5, system=0.6, iowait=3.0),
        snapshot={"sweep": Sweep(0.4, 180, 180, "/sys/fs/cgroup/memory/memory.stat", 0.02)},
    )


def login_leak() -> Case:
    remains = held(
        Left("session:998", 10_890, {"page_cache": 10_890}, "/user.slice", since=10_900.0, until=1.0),
        Left("session:0", 9, {"page_cache": 9}),
        lately={"session:998": 10},
    )
    seen = flows(("session:998", 10, 10, 0))
    return case(10_899, live=180, remains=remains, grown=10, services=services(BILLING), flows=seen)


def one_core_of_192() -> Case:
    busy = "/kubepods.slice/kubepods-burstable.slice"
    return case(
        4_000,
        live=3_100,
        remains=held(Left("workload:batch/CronJob/etl", 4_000, {"page_cache": 4_000}, busy, since=30 * DAY, until=DAY)),
        cores=large_host(192, 117, 4.4),
        reclaim=at_limit(busy, 1_900, 250_000, 4.1, longest=0.021),
        pressure=pressure(stall=0.12)._replace(cores=192),
        snapshot={"shape": Shape(192, 2)},
    )


def reclaim_pays() -> Case:
    return case(
        6_000,
        live=900,
        remains=held(Left("container:podman", 6_000, {"tmpfs": 6_000}, "/machine.slice", since=20 * DAY)),
        cores=cores(user=2.0, system=0.4),
        reclaim=at_limit("/machine.slice", 40, 2_600_000, 0.31, longest=0.012),
        pressure=pressure(stall=0.004),
    )


def throttled_beside() -> Case:
    return case(
        1_800,
        live=600,
        remains=held(Left("unit:nightly-report.service", 1_800, {"page_cache": 1_800}, since=90 * DAY, until=30 * DAY)),
        cores=cores(user=1.8, system=0.2),
        reclaim=at_limit("/ci.slice/build.service", 300, 900_000, 0.2, longest=0.002),
        pressure=pressure(ThrottledGroup(b"/ci.slice/build.service", 100, 94, 21.0), stall=0.02),
    )


def docker_rollout() -> Case:
    remains = held(
        Left("container:docker", 16, {"page_cache": 16}, "/docker", until=1.0),
        Left("unit:old.service", 28, {"page_cache": 28}),
        lately={"container:docker": 4},
    )
    seen = flows(("container:docker", 2_000, 2_000, 1_996))
    return all_times(case(44, live=2_150, remains=remains, grown=4, flows=seen), 9.0)


def blind_loop_grows() -> Case:
    guilty = loop("log-shipper.service", 2_300, every_seconds=2.0, why="1,790 automatic restarts in the last hour")
    return case(2_310, live=150, grown=5, services=services(guilty))._replace(
        remains=UNSEEN, flows=NO_BPF, reclaim=NO_BPF.about("reclaim"), softirq=NO_BPF.about("softirq")
    )


def oom_beside_zombies() -> Case:
    ages = (14.0, 9.5, 6.0, 2.5)
    lines = [line for age in ages for line in (oom(age), *reset(age - 0.05))]
    return case(
        4_500,
        live=1_200,
        remains=held(Left("unit:nightly-report.service", 4_500, {"page_cache": 4_500}, since=90 * DAY, until=30 * DAY)),
        cores=large_host(16, 3, 3.4),
        kernel_log=kernel_log(*lines, oom(-0.03))._replace(until=NOW + 10),
        softirq=softirq(3.2),
        reclaim=at_limit("/kubepods/pod7/trainer", 80, 1_900, 0.5, longest=0.03, fruitless=64),
        pressure=pressure(stall=0.1)._replace(cores=16),
        snapshot={"shape": Shape(16, 1)},
    )


def small_leak_faster() -> Case:
    old, new = "unit:archive.service", "unit:thumbnails.service"
    remains = held(
        Left(old, 7_000, {"tmpfs": 7_000}, since=35_000.0, until=4.0),
        Left(new, 900, {"page_cache": 900}, since=900.0, until=1.0),
        lately={old: 12, new: 60},
    )
    seen = flows((new, 63, 63, 3), (old, 12, 12, 0))
    return all_times(case(7_900, live=310, remains=remains, grown=72, flows=seen), 6.0)


def agent_asleep() -> Case:
    agent = unneeded(
        "acme-inventory.service", why="inventory agent: no server is configured", from_vendor=True, restarts_a_day=None
    )
    return case(15, live=6_520, services=services(unneeded=(agent,)), snapshot={"empty": 6_400})


def sockets_and_tmpfs() -> Case:
    left = Left("container:containerd", 2_800, {"socket": 1_650, "tmpfs": 1_150}, "/kubepods.slice", since=11 * DAY)
    return case(2_800, live=420, remains=held(left))


def swap_under_cache() -> Case:
    left = Left("unit:report@.service", 2_600, {"swap": 2_600, "page_cache": 700}, since=25 * DAY, until=2 * DAY)
    return case(2_600, live=330, remains=held(left))


SCENARIOS: dict[str, Callable[[], Case]] = {
    "slow-loop": slow_loop,
    "login-leak": login_leak,
    "one-core-of-192": one_core_of_192,
    "reclaim-pays": reclaim_pays,
    "throttled-beside": throttled_beside,
    "docker-rollout": docker_rollout,
    "blind-loop-grows": blind_loop_grows,
    "oom-beside-zombies": oom_beside_zombies,
    "small-leak-faster": small_leak_faster,
    "agent-asleep": agent_asleep,
    "sockets-and-tmpfs": sockets_and_tmpfs,
    "swap-under-cache": swap_under_cache,
}
