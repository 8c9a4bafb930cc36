# SPDX-License-Identifier: Apache-2.0
"""What the agent knows after ticks, walks and heavy looks: numbers, findings and metrics, with gaps where facts are missing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.build import ScriptedHost

from zombiescope.agent.api import Exposition
from zombiescope.agent.state import Judged, State
from zombiescope.analysis.growth import MOST_MEMCG_IDS, Growth
from zombiescope.analysis.looping import MOST_UNITS
from zombiescope.diagnosis.finding import Verdict
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.facts.agent import HistogramSample, MetricSample, ProbeRun, Reading, UnitRestarts
from zombiescope.facts.cgroups import (
    CountSource,
    EmptyDirectories,
    Hierarchy,
    HierarchyVersion,
    Identity,
    Look,
    MemoryUse,
    Residuals,
    Shape,
    Sweep,
)
from zombiescope.facts.cores import CoreMode
from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import Counts, EventTier, Flow, Lifecycle
from zombiescope.facts.metric_names import (
    CORE_SATURATED,
    MAJOR_FAULTS,
    MOST_SERIES,
    NIC_RESETS,
    POLL_RUN,
    POLL_RUN_POWERS,
    POLL_STAMPED,
    POLL_WAIT,
    POLL_WAIT_P999,
    POLL_WAIT_POWERS,
    PRESSURE,
    RECLAIM_CPU,
    SOFTIRQ_WAIT,
    SWEEPERS,
    THROTTLED,
    THROTTLED_SHARE,
    UNIT_RESTARTS,
    Metric,
)
from zombiescope.presenters.document import null_fields
from zombiescope.presenters.history_json import render_ledger
from zombiescope.presenters.metrics import render_families
from zombiescope.presenters.screen import headline
from zombiescope.probes.readers.cgroup_lifecycle import PollingLedger
from zombiescope.watching.catalogue import PROBES
from zombiescope.watching.cgroups import Backlog, Follower, Heavy, Restarts, Tick, Walked
from zombiescope.watching.nics import MOST_SERIES as MOST_NIC_SERIES

HEAVY = Heavy(
    {"residual": 0.1, "sweep": 0.02, "empty": 0.01},
    Residuals({b"/a": MemoryUse(4096, 0, 0, None, 0)}, frozenset()),
    Sweep(0.02, 12, 12, "/a/memory.stat", 0.01),
    EmptyDirectories(3, 3, 1, (b"/a",)),
    None,
)


def walked(makers: dict[str, int], swapped: int | None = None) -> Walked:
    return Walked(0.1, Backlog(makers, swapped))


def restarted(found: Restarts | Gap) -> Heavy:
    return HEAVY._replace(seconds={**HEAVY.seconds, "restarts": 0.05}, restarts=found)


def follower() -> Follower:
    return cast(
        "Follower",
        SimpleNamespace(
            host=SimpleNamespace(label="this host", wall_clock=lambda: 0.0),
            identity=Identity("h", "6.18", "boot", 5.0),
            shape=Shape(2, 1),
            hierarchy=Hierarchy(HierarchyVersion.V1, b"/sys/fs/cgroup/memory", False, ""),
            memory_bytes=1 << 30,
        ),
    )


def tick(n: int, zombies: int, flows: tuple[Flow, ...] = (), live: int = 20) -> Tick:
    total = Counts(n, n, 0)
    events = Lifecycle(EventTier.BPF, 10.0 * n, total, flows, Counts(), 0)
    return Tick(10.0 * n, Look(live + zombies, live), 0.001, events, 0.02, 10.0 * n, CountSource.PROC_CGROUPS)


def text_of(judged: Judged) -> str:
    families = render_families(judged.moment, judged.scan, judged.diagnosis, judged.growth)
    return Exposition(lambda: families).render()[1].decode()


def test_a_node_in_a_cluster_says_so_and_any_other_series_stays_what_it_was() -> None:
    following = follower()
    state = State(following, Thresholds(), "ami-1")
    state.take_tick(tick(1, 10))
    assert 'zombiescope_node_info{cluster="",hierarchy="v1",image="ami-1",kernel="6.18"} 1.0' in text_of(state.judge())
    following.identity = following.identity._replace(cluster="prod-eu-1")
    state.take_tick(tick(2, 10))
    assert 'zombiescope_node_info{cluster="prod-eu-1",hierarchy="v1"' in text_of(state.judge())


def growth_of(state: State) -> Any:
    return state.judge().diagnosis.finding("zombie-growth")


def test_a_leak_becomes_a_finding_with_its_maker_and_a_forecast() -> None:
    state = State(follower(), Thresholds(), "ami-1")
    leak = (Flow(b"/system.slice/bad.service", Counts(1, 1, 0)),)
    for n in range(40):
        state.take_tick(tick(n, 10 + n, leak, live=20 + 4 * n))
        if n == 2:
            state.take_walk(walked({"unit:old.service": 10, "unit:bad.service": 3}), dict(state.accounts.counts))
    state.take_heavy(HEAVY)
    state.consider_growth()
    finding = growth_of(state)
    assert finding.verdict is Verdict.PRESENT
    assert "unit:bad.service" in finding.summary
    assert {"forecast[warning]", "forecast[ids]"} <= {each.fact for each in finding.evidence}
    text = text_of(state.judge())
    assert 'zombiescope_finding{id="zombie-growth",severity="warning"} 1.0' in text
    assert 'zombiescope_memcg_maker_zombies{maker="unit:bad.service"} 40.0' in text
    assert 'zombiescope_memcg_zombie_bytes{kind="file"} 4096.0' in text
    assert "zombiescope_stat_sweep_seconds_count 1.0" in text
    assert sum(not line.startswith("#") for line in text.splitlines()) <= MOST_SERIES


def test_a_leak_of_six_a_minute_after_an_hour_of_peace_is_named_within_four_minutes() -> None:
    state = State(follower(), Thresholds(), "")
    state.take_walk(walked({"unit:old.service": 10}), {})
    for n in range(360):
        state.take_tick(tick(n, 10))
    state.consider_growth()
    assert growth_of(state).verdict is Verdict.ABSENT
    seconds = 0
    leak = (Flow(b"/system.slice/bad.service", Counts(1, 1, 0)),)
    for n in range(360, 400):
        state.take_tick(tick(n, 10 + n - 360, leak))
        seconds += 10
        if n % 3 == 0:
            state.consider_growth()
            if growth_of(state).verdict is Verdict.PRESENT:
                break
    assert "unit:bad.service" in growth_of(state).summary
    assert seconds <= 240


def test_a_clock_that_jumps_back_does_not_hide_a_leak_or_make_one() -> None:
    state = State(follower(), Thresholds(), "")
    leak = (Flow(b"/system.slice/bad.service", Counts(1, 1, 0)),)
    for n in range(60):
        each = tick(n, 10 + n, leak)
        state.take_tick(each._replace(at=each.at - (3600 if n >= 50 else 0)))
    state.consider_growth()
    assert "360 more per hour, most by unit:bad.service" in growth_of(state).summary
    assert isinstance(state.growth, Growth)
    assert state.growth.at == 590.0 - 3600
    assert -3600 <= state.growth.makers[0].since < state.growth.at
    calm = State(follower(), Thresholds(), "")
    for n in range(60):
        calm.take_tick(tick(n, 10)._replace(at=10.0 * n - (3600 if n % 20 > 9 else 0)))
    calm.consider_growth()
    assert growth_of(calm).verdict is Verdict.ABSENT


def test_ids_run_out_by_live_cgroups_and_by_zombies_with_pages_in_swap() -> None:
    state = State(follower(), Thresholds(), "")
    for n in range(40):
        state.take_tick(tick(n, 100 * n))
        state.take_walk(walked({}, 50 * n), {})
    state.consider_growth()
    assert isinstance(state.growth, Growth)
    assert state.growth.ids is not None
    assert state.growth.ids.mark == MOST_MEMCG_IDS
    held = 20 + 50 * 39
    assert state.growth.ids.soonest_seconds == pytest.approx((65_535 - held) / 5, rel=0.01)
    assert state.sample()["ids"] == held
    unknown = State(follower(), Thresholds(), "")
    for n in range(40):
        unknown.take_tick(tick(n, 100 * n))
    unknown.take_walk(walked({}), {})
    unknown.consider_growth()
    assert isinstance(unknown.growth, Growth)
    assert unknown.growth.ids is None, "zombies without pages in swap hold none"
    assert "ids" not in unknown.sample()


def test_a_deployment_of_a_few_minutes_is_no_forecast_that_ids_run_out() -> None:
    state = State(follower(), Thresholds(), "")
    for n in range(20):
        state.take_tick(tick(n, 0, live=20 + n))
    state.consider_growth()
    assert isinstance(state.growth, Growth)
    assert state.growth.ids is None, "a week ahead, from three minutes"
    for n in range(20, 60):
        state.take_tick(tick(n, 0, live=20 + 50 * n))
    state.consider_growth()
    assert state.growth.ids is not None


def test_what_is_not_known_has_no_sample() -> None:
    state = State(follower(), Thresholds(), "")
    gap = Gap("memcg.counted", "no row")
    state.take_tick(Tick(0.0, gap, 0.0, Gap("births", "refused"), 0.0, 0.0, None))
    state.consider_growth()
    text = text_of(state.judge())
    for name in (
        "memcg_counted",
        "memcg_births_total",
        "memcg_maker_zombies",
        "memcg_growth",
        "events_lost",
        "kernel_bytes",
    ):
        assert f"\nzombiescope_{name}" not in text
    assert 'zombiescope_probe_success{probe="census"} 0.0' in text
    assert growth_of(state).verdict is Verdict.UNKNOWN
    assert state.sample() == {"uptime": 0}


def fullest_readings() -> dict[str, Reading]:
    """Every light probe, and restarts, with as many labels as each may have."""

    def samples(metric: Metric, number: int) -> tuple[MetricSample, ...]:
        return tuple(MetricSample(metric, tuple(f"{n}" for _ in metric.labels), n) for n in range(number))

    def spread(metric: Metric, powers: tuple[int, ...]) -> tuple[HistogramSample, ...]:
        bounds = tuple(2.0**power / 1e6 for power in powers)
        return tuple(HistogramSample(metric, (cores,), bounds, bounds, 9, 9.0) for cores in ("all", "worst"))

    polls = (*spread(POLL_WAIT, POLL_WAIT_POWERS), *spread(POLL_RUN, POLL_RUN_POWERS))
    reclaim = (*samples(RECLAIM_CPU, 2), *samples(PRESSURE, 3))
    return {
        "nic_resets": Reading(samples(NIC_RESETS, MOST_NIC_SERIES)),
        "cores": Reading(samples(CORE_SATURATED, len(CoreMode))),
        "softirq": Reading(samples(SOFTIRQ_WAIT, 1)),
        "polls": Reading((*samples(POLL_WAIT_P999, 1), *samples(POLL_STAMPED, 1)), histograms=polls),
        "reclaim": Reading((*reclaim, *samples(MAJOR_FAULTS, 1), *samples(THROTTLED, 1), *samples(THROTTLED_SHARE, 1))),
        "sweeps": Reading(samples(SWEEPERS, 1)),
        "pods": Reading(),
        "restarts": Reading(samples(UNIT_RESTARTS, MOST_UNITS)),
    }


def test_the_most_series_that_there_can_be_stay_within_the_budget() -> None:
    state = State(follower(), Thresholds(zombies_warning=1, growth_least_seconds=0), "x" * 200)
    many = tuple(
        Flow(b"/system.slice/" + bytes([97 + n % 26, 97 + n // 26]) + b".service", Counts(1, 1, 0)) for n in range(200)
    )
    for n in range(30):
        state.take_tick(tick(n, 1000 * n, many))
    state.take_walk(walked({}), {})
    state.take_heavy(HEAVY)
    state.fail("textfile", "full")
    state.report("history", Gap("history", "full"))
    state.consider_growth()
    for name, reading in fullest_readings().items():
        state.take_reading(name, ProbeRun(0.1, None), reading)
    assert len(fullest_readings()) == len(PROBES) + 1
    assert sum(not line.startswith("#") for line in text_of(state.judge()).splitlines()) <= MOST_SERIES


def test_units_that_loop_are_counted_and_a_host_without_systemd_has_no_such_probe() -> None:
    state = State(follower(), Thresholds(), "")
    state.take_tick(tick(1, 5))
    state.take_heavy(HEAVY, 0.0)
    assert "restarts" not in text_of(state.judge())
    for n, count in enumerate((7, 9, 14)):
        state.take_heavy(restarted(Restarts((UnitRestarts("bad.service", count, False),))), 300.0 * n)
    assert 'zombiescope_unit_restarts_total{unit="bad.service"} 14.0' in text_of(state.judge())
    state.take_heavy(restarted(Gap("units[].state", "no answer")), 900.0)
    text = text_of(state.judge())
    assert "unit_restarts_total{" not in text
    assert 'zombiescope_probe_success{probe="restarts"} 0.0' in text


def test_what_a_light_probe_tells_is_served_and_remembered_until_it_fails() -> None:
    state = State(follower(), Thresholds(), "")
    state.take_tick(tick(1, 5))
    told = Reading((MetricSample(UNIT_RESTARTS, ("a.service",), 3),), {"restarts": 3.0})
    state.take_reading("x", ProbeRun(0.01, None), told)
    assert 'zombiescope_unit_restarts_total{unit="a.service"} 3.0' in text_of(state.judge())
    assert state.sample()["restarts"] == 3.0
    state.take_reading("x", ProbeRun(0.01, Gap("x", "gone")), Reading(gap=Gap("x", "gone")))
    assert "a.service" not in text_of(state.judge())
    assert "restarts" not in state.sample()


def test_every_null_of_a_ledger_has_its_gap() -> None:
    state = State(follower(), Thresholds(), "")
    state.take_tick(tick(1, 5, (Flow(b"/a/b", Counts(1, 1, 0)),)))
    document = render_ledger(state.moment(), state.accounts.list(), is_backlog_known=False)
    assert set(null_fields(document)) == {gap["fact"] for gap in document["gaps"]}


@pytest.mark.parametrize("is_backlog_known", [True, False])
def test_polling_tells_no_number_of_what_it_lost_and_says_why_it_polls(is_backlog_known: bool) -> None:
    """Nobody counts what lives between two looks: nought would be a claim."""
    state = State(follower(), Thresholds(), "")
    refused = (Gap("events.bpf", "not permitted", "run as root"), Gap("events.tracefs", "not mounted"))
    host = ScriptedHost({b"/c/a/": b""})
    polled = PollingLedger(host, Hierarchy(HierarchyVersion.V1, b"/c", False, ""), refused).read()
    state.take_tick(tick(1, 5)._replace(lifecycle=polled))
    document = render_ledger(state.moment(), state.accounts.list(), is_backlog_known)
    assert (document["tier"], document["lost"], document["total"]["births"]) == ("polling", None, 0)
    told = {gap["fact"]: gap["reason"] for gap in document["gaps"]}
    assert set(null_fields(document)) <= told.keys()
    assert told["tier"] == "bpf: not permitted; tracefs: not mounted"
    assert {"total.births", "total.releases", "lost", "makers[].zombies"} <= told.keys()
    assert "lost" not in state.sample()
    assert "events_lost_total" not in text_of(state.judge())
    assert headline(0.0, Look(2, 1), "polling", None).endswith("events by polling, ? lost")


def test_where_no_tier_was_to_be_had_every_null_of_a_ledger_has_its_gap() -> None:
    state = State(follower(), Thresholds(), "")
    state.take_tick(tick(1, 5)._replace(lifecycle=Gap("births", "none")))
    document = render_ledger(state.moment(), state.accounts.list(), is_backlog_known=False)
    assert document["tier"] is document["total"] is document["lost"] is None
    assert set(null_fields(document)) <= {gap["fact"] for gap in document["gaps"]}
