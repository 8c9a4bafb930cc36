# SPDX-License-Identifier: Apache-2.0
"""More patients: churn that looks like a leak, hosts where little can be seen, reclaim that is dear for one of two causes."""

from __future__ import annotations

from collections.abc import Callable

from tests.scenarios.built_verdicts import UNSEEN
from tests.scenarios.facts import NOW, case, cores, flows, loop, pressure, services
from tests.scenarios.held_out.clinic import DAY, NO_BPF, Left, at_limit, held
from tests.scenarios.speed import all_times

from zombiescope.diagnosis.case import Case
from zombiescope.facts.reclaim import ReclaimCalls, ReclaimGroup, ReclaimKind, ReclaimSeen
from zombiescope.facts.units import ServiceLoop

LOUD = loop("metrics-push.service", 2_000_000, every_seconds=0.3, why="12,000 automatic restarts in the last hour")
PROBE = loop("vpn-probe.service", 5_900, every_seconds=90.0, why="40 automatic restarts in the last hour")


def ci_churn() -> Case:
    remains = held(
        Left("container:docker", 15, {"page_cache": 15}, "/docker", since=60.0, until=0.1),
        Left("unit:old.service", 61, {"page_cache": 61}),
        lately={"container:docker": 14},
    )
    seen = flows(("container:docker", 603, 600, 586), ("unit:runner.service", 2, 2, 2))
    return case(76, live=190, remains=remains, grown=1, flows=seen, cores=cores(user=5.0, system=1.2))


def tracefs_slow_leak() -> Case:
    seen = flows(("path:/jobs/render-*", 8, 8, 1), ("unit:cron.service", 1, 1, 1), tier="tracefs")
    return all_times(case(480, live=310, grown=7, flows=seen)._replace(remains=UNSEEN), 2.5)


def blind(*loops: ServiceLoop) -> Case:
    found = case(6_100, live=130, services=services(*loops))
    return found._replace(
        remains=UNSEEN, flows=NO_BPF, reclaim=NO_BPF.about("reclaim"), softirq=NO_BPF.about("softirq")
    )


def swapping_host() -> Case:
    direct = ReclaimCalls(ReclaimKind.DIRECT, 5_200, 310, 171_000, 9.4, 3.3, 0.04, NOW + 2)
    return case(
        350,
        live=1_400,
        remains=held(Left("unit:old.service", 350, {"page_cache": 350}, since=12 * DAY)),
        reclaim=ReclaimSeen(10.0, (direct,)),
        pressure=pressure(stall=0.6, kswapd=0.5),
    )


def crowded_node() -> Case:
    return case(
        2_900,
        live=4_100,
        remains=held(Left("container:cri-o", 2_900, {"page_cache": 2_900}, "/kubepods.slice", since=17 * DAY)),
        reclaim=at_limit("/kubepods.slice", 600, 24_000, 3.6, longest=0.011),
        pressure=pressure(stall=0.35),
    )


def dear_pages_everywhere() -> Case:
    ours = ReclaimGroup("/build/job", ("/build",), 700, 16_800, 5.6)
    other = ReclaimGroup("/db/main", ("/db/main", "/db"), 300, 7_100, 2.4)
    calls, pages, seconds = (sum(each) for each in zip(ours[2:], other[2:], strict=True))
    kind = ReclaimCalls(ReclaimKind.LIMIT, int(calls), 0, int(pages), seconds, seconds, 0.019, NOW + 2)
    return case(
        9_000,
        live=75,
        remains=held(Left("unit:frame-cache.service", 9_000, {"memfd": 9_000}, "/build", since=4 * DAY)),
        reclaim=ReclaimSeen(10.0, (kind,), groups=(ours, other)),
        pressure=pressure(stall=0.44),
    )


SCENARIOS: dict[str, Callable[[], Case]] = {
    "ci-churn": ci_churn,
    "tracefs-slow-leak": tracefs_slow_leak,
    "loud-and-blind": lambda: blind(LOUD, PROBE),
    "loud-alone": lambda: blind(LOUD),
    "swapping-host": swapping_host,
    "crowded-node": crowded_node,
    "dear-pages-everywhere": dear_pages_everywhere,
}
