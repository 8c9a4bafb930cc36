# SPDX-License-Identifier: Apache-2.0
"""Scenarios that are built from facts: those that no lab makes at will, or not at this size."""

from __future__ import annotations

from collections.abc import Callable

from tests.build import observed, snapshot
from tests.scenarios.built_verdicts import BUILT_VERDICTS
from tests.scenarios.facts import (
    case,
    cores,
    incident_facts,
    kernel_log,
    loop,
    oom,
    pressure,
    real_time,
    reclaim,
    remains,
    reset,
    services,
    slow_sweep,
    stretch,
    unneeded,
)

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.facts.gap import Gap
from zombiescope.facts.reclaim import ThrottledGroup
from zombiescope.facts.units import RealTimeTask

_PARTIAL = Gap("memcg.counted", "this is a container's view of the cgroups", "run it on the host")


def both_diseases() -> Case:
    held = remains({"container:docker": ("tmpfs", 12_000)})
    look = observed(snapshot(12_000, 5_100, empty=5_000))
    return case()._replace(observations=(look, look), remains=held)


def incident() -> Case:
    guilty = loop("ecs.service", need="unneeded")
    return case(
        68_440,
        left={"unit:ecs.service": ("page_cache", 68_300), "session:1000": ("page_cache", 140)},
        services=services(guilty, unneeded=(unneeded(),)),
        **incident_facts(),
        snapshot={"sweep": slow_sweep(240)},
    )


def incident_needed() -> Case:
    whole = incident()
    return whole._replace(services=services(loop("ecs.service", need="needed")))


def other_zone() -> Case:
    return case(services=services(unneeded=(unneeded(),)))


def reclaim_walk() -> Case:
    return case(
        20_000,
        left={"unit:batch.service": ("page_cache", 20_000)},
        cores=cores(stretch(3.1), user=2.0, system=2.0),
        reclaim=reclaim(calls=3, pages=12, seconds=6.4, longest=3.1),
    )


def steal() -> Case:
    return case(cores=cores(user=4.0, steal=4.5))


def steal_and_zombies() -> Case:
    return case(
        3_000,
        live=2_000,
        left={"unit:old.service": ("page_cache", 3_000)},
        cores=cores(user=4.0, steal=4.5),
        kernel_log=kernel_log(*reset(8), *reset(4), *reset(1)),
    )


def oom_dumps() -> Case:
    return case(cores=cores(stretch(), system=6.0), kernel_log=kernel_log(*(oom(age) for age in (9, 7, 5, 3, 1))))


def two_causes() -> Case:
    return case(
        9_000,
        left={"unit:spool.service": ("tmpfs", 5_000), "unit:fetch.service": ("page_cache", 4_000)},
        services=services(loop("fetch.service", 50_000), loop("spool.service", 20_000)),
    )


def one_cause() -> Case:
    return case(
        4_000,
        left={"unit:quiet.service": ("page_cache", 4_000)},
        services=services(loop("loud.service", 90_000), loop("quiet.service", 4_000)),
    )


def writeback() -> Case:
    return case(3_000, left={"unit:batch.service": ("writeback", 3_000)})


def sockets() -> Case:
    return case(3_000, left={"container:docker": ("socket", 3_000)})


def tasks() -> Case:
    return case(3_000, left={"container:docker": ("task", 3_000)})


def unnamed() -> Case:
    return case(3_000, left={"container:docker": ("other", 3_000)})


def cannot_show() -> Case:
    look = observed(
        snapshot(hierarchy=_PARTIAL, census=_PARTIAL, residuals=_PARTIAL, sweep=_PARTIAL, empty_directories=_PARTIAL)
    )
    return Case((look,), Thresholds())


LAB = "path:/zombiescope-lab/scenario/z*"
HOG = RealTimeTask(911, "spin", "fifo", 50, 9.5, 1)
CAPPED = ThrottledGroup(b"/system.slice/capped.service", 100, 98, 7.9)


def lab(kind: str, zombies: int = 300) -> Callable[[], Case]:
    return lambda: case(zombies, live=40, left={LAB: (kind, zombies)})


def loop_leaks() -> Case:
    left = {"unit:loop.service": ("page_cache", 300), "unit:old.service": ("page_cache", 12)}
    return case(312, live=40, left=left, services=services(loop("loop.service", 300, every_seconds=0.1)))


def inner_loop(left: int) -> Callable[[], Case]:
    seen = services(loop("inner.service", 7, kind="inside"))
    held = {"unit:inner.service": ("page_cache", left), "unit:old.service": ("page_cache", 12)} if left else None
    return lambda: case(left + 12, live=40, left=held, services=seen)


def visible_leak() -> Case:
    look = observed(snapshot(12, 1_150, empty=1_100))
    return case()._replace(observations=(look, look))


STAND_INS: dict[str, Callable[[], Case]] = {
    "idle": case,
    "user-hog": lambda: case(cores=cores(user=9.9)),
    "throttled": lambda: case(pressure=pressure(CAPPED)),
    "real-time": lambda: case(cores=cores(user=9.9), real_time=real_time(HOG)),
    "loop-leaks": loop_leaks,
    "loop-clean": lambda: case(services=services(loop("loop.service", 300, every_seconds=0.1))),
    "inner-loop-leaks": inner_loop(300),
    "inner-churn": inner_loop(0),
    "tmpfs": lab("tmpfs"),
    "page-cache": lab("page_cache"),
    "sysv": lab("sysv_shm"),
    "memfd": lab("memfd"),
    "swap": lab("swap"),
    "swap-few": lab("swap", 30),
    "visible-leak": visible_leak,
    "pages-handed-on": case,
}
"""The facts of real scenarios, for as long as their recording is not there: `tests/scenarios/runs.py` makes them."""
BUILT: dict[str, Callable[[], Case]] = {
    "both-diseases": both_diseases,
    "incident": incident,
    "incident-needed": incident_needed,
    "other-zone": other_zone,
    "pressure": lambda: case(pressure=pressure(stall=0.4), reclaim=reclaim(40, 900_000, 2.0, 0.1)),
    "reclaim-walk": reclaim_walk,
    "steal": steal,
    "steal-and-zombies": steal_and_zombies,
    "oom-dumps": oom_dumps,
    "two-causes": two_causes,
    "one-cause": one_cause,
    "writeback": writeback,
    "sockets": sockets,
    "tasks": tasks,
    "unnamed": unnamed,
    "cannot-show": cannot_show,
    **BUILT_VERDICTS,
}
