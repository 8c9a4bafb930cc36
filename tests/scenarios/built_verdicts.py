# SPDX-License-Identifier: Apache-2.0
"""Scenarios of verdicts that were wrong once: by a constant of one machine, by a stock without a maker, without a walk."""

from __future__ import annotations

from collections.abc import Callable

from tests.build import observed
from tests.scenarios.facts import (
    NOW,
    case,
    flows,
    incident_facts,
    loop,
    placed_reclaim,
    pressure,
    remains,
    services,
    unneeded,
)

from zombiescope.analysis.growth import Growth, Trend
from zombiescope.analysis.trend import Slope
from zombiescope.diagnosis.case import Case
from zombiescope.facts.cgroups import LiveTree
from zombiescope.facts.gap import Gap
from zombiescope.facts.reclaim import ReclaimCalls, ReclaimGroup, ReclaimKind, ReclaimSeen

UNSEEN = Gap("remains", "BPF is refused, and this kernel has no BTF for /proc/kcore", "run it where BPF is allowed")
AGENT = {"unit:unused-agent.service": ("tmpfs", 2_000)}
POD = "pod:0c1d2e3f-0000-4000-8000-000000000001"
WALK = (2_650, 1_400_000, 1.92)
"""Calls, pages and seconds on a core in five seconds, with 2,000 zombies below the limit, as lab incident has them."""


def at_its_limit(limit: str, zombies_at: str) -> Case:
    held = remains(AGENT)._replace(parents={zombies_at: 2_000})
    seen = placed_reclaim(limit, *WALK)
    return case(2_000, live=27, pressure=pressure(stall=0.41), reclaim=seen)._replace(remains=held)


def walk_undecided() -> Case:
    known = at_its_limit("/node", "/node")
    assert isinstance(known.reclaim, ReclaimSeen)
    return known._replace(reclaim=known.reclaim._replace(groups=()))


def beside_another(elsewhere: tuple[int, int, float]) -> Case:
    """Two jobs at their limits: one above 20,000 dead, 10 ms a call for 32 pages; the other where none are."""
    calls, pages, seconds = elsewhere
    groups = (
        ReclaimGroup("/node/job", ("/node",), 400, 12_800, 4.0),
        ReclaimGroup("/swapper/job", ("/swapper",), calls, pages, seconds),
    )
    took = 4.0 + seconds
    kind = ReclaimCalls(ReclaimKind.LIMIT, 400 + calls, 0, 12_800 + pages, took, took, 0.02, NOW + 2)
    held = remains({"unit:unused-agent.service": ("tmpfs", 20_000)})._replace(parents={"/node": 20_000})
    seen = ReclaimSeen(5.0, (kind,), groups=groups)
    return case(20_000, live=27, pressure=pressure(stall=0.4), reclaim=seen)._replace(remains=held)


def among_many_live(dead: int, live_there: int | None) -> Case:
    """5,000 live on the host; below the limit that is reached as many as `live_there`, or nobody counted them."""
    held = remains({"unit:unused-agent.service": ("tmpfs", dead)})._replace(parents={"/kubepods": dead})
    seen = placed_reclaim("/kubepods", 1_000, 32_000, 4.0)
    found = case(dead, live=5_000, pressure=pressure(stall=0.4), reclaim=seen)._replace(remains=held)
    if live_there is None:
        return found
    paths = (b"/", b"/kubepods", *(b"/kubepods/pod%d" % number for number in range(1, live_there)))
    paths += tuple(b"/system.slice/u%d" % number for number in range(5_000 - len(paths)))
    looks = []
    for look in found.observations:
        assert not isinstance(look.snapshot.census, Gap)
        census = look.snapshot.census._replace(tree=LiveTree(paths, paths[2:]))
        looks.append(observed(look.snapshot._replace(census=census)))
    return found._replace(observations=tuple(looks))


def small_harm() -> Case:
    held = remains({"unit:batch.service": ("page_cache", 600)})._replace(parents={"/node": 600})
    seen = placed_reclaim("/node", 9_000, 300_000, 3.1)
    return case(600, live=500, pressure=pressure(stall=0.2), reclaim=seen)._replace(remains=held)


def small_stock() -> Case:
    return case(600, live=500, left={"unit:batch.service": ("page_cache", 600)})


def timer(left: int) -> Case:
    seen = services(timers=(("job.service", "job.timer"),))
    held = {"unit:job.service": ("page_cache", 12 + left)}
    return case(12 + left, left=held, grown=left, services=seen, flows=flows(("unit:job.service", 40, 40, 40 - left)))


def wave() -> Case:
    left = {f"pod:0c1d2e3f-0000-4000-8000-{number:012d}": ("page_cache", 5) for number in range(6)}
    seen = flows(*((maker, 0, 5, 0) for maker in left))
    return case(42, left={**left, "unit:old.service": ("page_cache", 12)}, grown=30, flows=seen)


def deployment() -> Case:
    seen = flows(("pod:*", 30, 30, 29), ("unit:old.service", 1, 1, 1), seconds=120.0)
    return case(13, grown=1, flows=seen)


def pod_leak() -> Case:
    seen = flows((POD, 590, 590, 6), seconds=600.0)
    return case(596, left={POD: ("page_cache", 584), "unit:old.service": ("page_cache", 12)}, grown=584, flows=seen)


def old_leak(grown: int) -> Case:
    held = {"unit:spool.service": ("tmpfs", 3_000 + grown)}
    seen = flows(("unit:spool.service", grown, grown, 0)) if grown else flows()
    return case(3_000 + grown, left=held, grown=grown, flows=seen)


def handful(deaths: int, releases: int, stock: int) -> Case:
    """In ten seconds, by one maker, beside 200 old ones of others."""
    left = {"unit:leaky.service": ("page_cache", stock), "unit:old.service": ("page_cache", 200)}
    seen = flows(("unit:leaky.service", deaths, deaths, releases))
    return case(200 + stock, left=left, grown=deaths - releases, flows=seen)


def handful_unseen(releases: int) -> Case:
    seen = flows(("unit:leaky.service", 8, 8, releases), tier="tracefs")
    return case(900, grown=8 - releases, flows=seen)._replace(remains=UNSEEN)


def busy(left: int, grown: int) -> Case:
    held = {"container:containerd": ("page_cache", 5 + left), "unit:old.service": ("page_cache", 75)}
    return case(
        80 + left, left=held, grown=grown, flows=flows(("container:containerd", 300, 300, 300 - left), seconds=10.0)
    )


def watched(per_hour: float) -> Case:
    """By an agent, for six hours, and nothing happens in the ten seconds of the window itself."""
    slope, grown = Slope(per_hour / 3_600, 0.9 * per_hour / 3_600, 1.1 * per_hour / 3_600), round(4 * per_hour)
    total = Trend(None, 900, grown, slope, NOW - 21_600, is_since_seen=False)
    makers = (total._replace(maker="unit:slow.service"),) if grown else ()
    seen = Growth(NOW, 21_600.0, total, makers, are_makers_known=True)
    return case(900, left={"unit:slow.service": ("page_cache", 900)}, growth=seen)


def new_flood() -> Case:
    maker = "path:/batch/job-*"
    held = remains({maker: ("tmpfs", 1_529)}, days=5 / 86_400)
    return case(1_529, grown=1_529, flows=flows((maker, 1_529, 1_529, 0), seconds=5.0))._replace(remains=held)


def template(maker: str) -> Case:
    loops = [loop(f"job@{number}.service", 60 + number, every_seconds=30.0) for number in range(3)]
    return case(231, live=40, left={maker: ("page_cache", 231)}, services=services(*loops))


def no_walk(restarts: int, releases: int, zombies: int) -> Case:
    guilty = loop("ecs.service", restarts, need="unneeded")
    seen = flows(("unit:ecs.service", 1, 1, releases), tier="tracefs")
    found = case(zombies, services=services(guilty, unneeded=(unneeded(),) if not releases else ()), flows=seen)
    return found._replace(remains=UNSEEN, **incident_facts() if not releases else {})


def blind(zombies: int, *restarts: tuple[str, int, float]) -> Case:
    """Neither the dead nor deaths can be seen: restarts and the count are all there is."""
    loops = [loop(name, count, every_seconds=every) for name, count, every in restarts]
    return case(zombies, services=services(*loops), flows=UNSEEN.about("flows"))._replace(remains=UNSEEN)


def no_walk_grows() -> Case:
    seen = flows(("unit:leaky.service", 40, 40, 0), tier="tracefs")
    return case(4_000, grown=40, flows=seen)._replace(remains=UNSEEN)


def loop_left_ten() -> Case:
    left = {"unit:loop.service": ("page_cache", 10), "unit:old.service": ("page_cache", 2)}
    return case(left=left, services=services(loop("loop.service", 300, every_seconds=0.1)))


BUILT_VERDICTS: dict[str, Callable[[], Case]] = {
    "quiet-walk": lambda: at_its_limit("/node", "/node"),
    "short-beside-zombies": lambda: at_its_limit("/other", "/node"),
    "walk-undecided": walk_undecided,
    "walk-beside-swapper": lambda: beside_another((200, 640, 0.8)),
    "walk-beside-equal": lambda: beside_another((200, 6_400, 2.0)),
    "walk-beside-quick": lambda: beside_another((200, 6_400, 0.2)),
    "dead-uncounted-live": lambda: among_many_live(4_000, None),
    "dead-beside-few-live": lambda: among_many_live(4_000, 60),
    "dead-among-live": lambda: among_many_live(1_200, 4_800),
    "small-harm": small_harm,
    "small-stock": small_stock,
    "few-live": lambda: case(210, live=3),
    "many-per-live": lambda: case(5_200, live=100),
    "timer-leak": lambda: timer(38),
    "timer-clean": lambda: timer(0),
    "wave": wave,
    "deployment": deployment,
    "pod-leak": pod_leak,
    "old-leak-grows": lambda: old_leak(25),
    "old-stock": lambda: old_leak(0),
    "handful-left": lambda: handful(10, 1, 380),
    "handful-fresh": lambda: handful(9, 0, 9),
    "handful-released": lambda: handful(10, 6, 380),
    "handful-unseen": lambda: handful_unseen(0),
    "handful-unseen-released": lambda: handful_unseen(5),
    "busy-churn": lambda: busy(12, 1),
    "busy-leak": lambda: busy(30, 29),
    "watched-leak": lambda: watched(120.0),
    "watched-steady": lambda: watched(0.0),
    "new-flood": new_flood,
    "template": lambda: template("unit:job@.service"),
    "template-clean": lambda: template("unit:old.service"),
    "no-walk": lambda: no_walk(70_000, 0, 68_440),
    "no-walk-innocent": lambda: no_walk(300, 1, 5_000),
    "no-walk-grows": no_walk_grows,
    "blind-loud": lambda: blind(1_000, ("clean.service", 600_000, 0.1)),
    "blind-fits": lambda: blind(1_000, ("clean.service", 600_000, 0.1), ("ecs.service", 1_100, 60.0)),
    "blind-two-fit": lambda: blind(68_440, ("loud.service", 90_000, 1.0), ("ecs.service", 70_000, 10.0)),
    "loop-left-ten": loop_left_ten,
}
