# SPDX-License-Identifier: Apache-2.0
"""Sixty minutes on an accelerated clock: churn of many shapes raises no growth, and a leak beside all of it is named in time.

Each shape says when cgroups of one maker die and when they are released; the agent's state takes a look every ten seconds and
judges every thirty, as the agent does.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import count

import pytest
from tests.unit.agent.test_state import follower

from zombiescope.agent.state import State
from zombiescope.diagnosis.finding import Verdict
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.facts.cgroups import CountSource, Look
from zombiescope.facts.lifecycle import Counts, EventTier, Flow, Lifecycle
from zombiescope.watching.cgroups import Backlog, Tick, Walked

HOUR, STEP, JUDGE_EVERY = 3600.0, 10.0, 3
NEVER = float("inf")
Shape = Callable[[random.Random], Iterator[tuple[float, float]]]
"""Of each cgroup: when it dies, and when it is released."""


def bursts(chance: random.Random) -> Iterator[tuple[float, float]]:
    """Five hundred at once every two minutes, gone half a minute later."""
    for wave in range(0, int(HOUR), 120):
        for _ in range(500):
            died = wave + chance.uniform(0, 5)
            yield died, died + chance.uniform(0.01, 30)


def deploys(chance: random.Random) -> Iterator[tuple[float, float]]:
    """Every ten minutes sixty are replaced within a minute; their page cache goes in the four minutes after."""
    for wave in range(100, int(HOUR), 600):
        for _ in range(60):
            died = wave + chance.uniform(0, 60)
            yield died, died + chance.uniform(60, 240)


def sawtooth(period: float, per_minute: float) -> Shape:
    """Page cache that stays until the next reclaim, which frees all of it."""

    def shape(_: random.Random) -> Iterator[tuple[float, float]]:
        for n in count():
            died = n * 60 / per_minute
            if died >= HOUR:
                return
            yield died, (died // period + 1) * period

    return shape


def slow_release(seconds: float, least: float, most: float, swing: float) -> Shape:
    """Released so long after death (unwritten pages wait about half a minute), while the load swings up and down."""

    def shape(chance: random.Random) -> Iterator[tuple[float, float]]:
        died = 0.0
        while died < HOUR:
            phase = died % (2 * swing) / swing
            died += chance.expovariate((least + (most - least) * min(phase, 2 - phase)) / 60)
            yield died, died + seconds * chance.uniform(0.7, 1.1)

    return shape


def leak(begin: float, per_minute: float) -> Shape:
    def shape(chance: random.Random) -> Iterator[tuple[float, float]]:
        for n in count():
            died = begin + (n + chance.uniform(-0.4, 0.4)) * 60 / per_minute
            if died >= HOUR:
                return
            yield died, NEVER

    return shape


CALM: dict[str, Shape] = {
    "bursts": bursts,
    "deploys": deploys,
    "teeth-of-a-minute": sawtooth(60, 60),
    "teeth-of-two-minutes": sawtooth(120, 60),
    "teeth-of-two-and-a-half": sawtooth(150, 30),
    "slow-release-heavy-load": slow_release(35, 10, 600, 600),
    "slow-release-long-swing": slow_release(35, 0.1, 200, 1200),
    "a-minute-to-release": slow_release(60, 1, 100, 300),
}


def judged(shapes: dict[str, Shape], seed: int) -> list[tuple[float, str]]:
    """When growth was found, and what was said of it."""
    chance = random.Random(seed)
    events = sorted(
        (moment, kind, name.encode())
        for name, shape in shapes.items()
        for times in shape(chance)
        for kind, moment in enumerate(times)
        if moment <= HOUR
    )
    state, zombies, at, found = State(follower(), Thresholds(), ""), 0, 0, list[tuple[float, str]]()
    state.take_walk(Walked(0.1, Backlog({}, None)), {})
    for n in range(int(HOUR / STEP)):
        now, flows = n * STEP, dict[bytes, Counts]()
        while at < len(events) and events[at][0] <= now:
            _, kind, name = events[at]
            flows[name] = flows.get(name, Counts()).plus(Counts(0, 0, 1) if kind else Counts(1, 1, 0))
            zombies, at = zombies + (-1 if kind else 1), at + 1
        flow = tuple(Flow(b"/system.slice/" + name + b".service", counts) for name, counts in flows.items())
        lifecycle = Lifecycle(EventTier.BPF, now, Counts(), flow, Counts(), 0)
        state.take_tick(Tick(now, Look(100 + zombies, 100), 0.0, lifecycle, 0.0, now, CountSource.PROC_CGROUPS))
        if n % JUDGE_EVERY == 0:
            state.consider_growth()
            finding = state.judge().diagnosis.finding("zombie-growth")
            if finding.verdict is Verdict.PRESENT:
                found.append((now, finding.summary))
    return found


@pytest.mark.parametrize("name", CALM)
def test_an_hour_of_churn_raises_nothing(name: str) -> None:
    assert judged({name: CALM[name]}, 1) == []


@pytest.mark.parametrize("seed", range(2))
def test_a_leak_of_six_a_minute_beside_all_of_it_is_named_within_five_minutes(seed: int) -> None:
    begin = 1200.0 + 7 * seed
    found = judged({"leaky": leak(begin, 6), **CALM}, seed)
    assert begin < found[0][0] <= begin + 300
    assert all("unit:leaky.service" in summary and "others" not in summary for _, summary in found)
    assert found[-1][0] > HOUR - 60, "it stays named as long as it leaks"


def test_what_comes_and_goes_in_five_minutes_is_called_growth_twice_and_then_no_more() -> None:
    """Nobody can tell the first rise of five minutes from a leak; after two falls, only what is above the old heights counts."""
    found = judged({"teeth": sawtooth(300, 30)}, 0)
    assert found[-1][0] < 600
    both = judged({"teeth": lambda chance: iter([*sawtooth(300, 30)(chance), *leak(1200, 30)(chance)])}, 0)
    assert any(1200 < at <= 1200 + 900 for at, _ in both), "a leak of the same maker shows once it is above them"
