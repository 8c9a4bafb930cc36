# SPDX-License-Identifier: Apache-2.0
"""Recorded machines with 96 and 192 CPUs instead of their own two: text for 80 columns, documents whole, metrics few."""

from __future__ import annotations

import io
from collections.abc import Iterable

import pytest
from rich.console import Console, RenderableType
from tests.machines.wide import answers_of, widened
from tests.unit.agent.test_state import follower, text_of, tick
from tests.unit.machines.answers import recordings

from zombiescope.agent.state import State
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.facts.agent import ProbeRun, Reading
from zombiescope.facts.cores import CoresSeen
from zombiescope.facts.metric_names import MOST_SERIES
from zombiescope.host.recording import ReplayHost
from zombiescope.pipeline.cores import watch_cores
from zombiescope.pipeline.doctor import examine
from zombiescope.presenters.cores import render_cores, render_cores_text
from zombiescope.presenters.doctor_report import Report, render_report
from zombiescope.presenters.doctor_text import Shown, render_report_text
from zombiescope.watching.catalogue import PROBES

SIZES = (96, 192)
HOT = (5, 70)
SECONDS = 3.0
_MOST_LINES = 60


def wide(cpus: int, hot: Iterable[int] = (), name: str = "idle") -> ReplayHost:
    return ReplayHost("the recording", widened(answers_of(recordings()[name]), cpus, tuple(hot)))


def drawn(parts: Iterable[RenderableType]) -> list[str]:
    console = Console(file=io.StringIO(), width=80, color_system=None)
    for part in parts:
        console.print(part)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


@pytest.mark.parametrize("cpus", SIZES)
def test_cores_shows_those_that_matter_and_lists_all(cpus: int) -> None:
    answer = watch_cores(wide(cpus, HOT), SECONDS)
    assert isinstance(answer.seen, CoresSeen)
    lines = drawn(render_cores_text(answer.seen))
    assert max(map(len, lines)) <= 80
    assert len(lines) <= _MOST_LINES
    rows = [line.split()[0] for line in lines if "user" in line and "kernel" in line and "%" in line]
    assert rows == ["5", "70", f"{cpus - 2}"], "and the others in one"
    document = render_cores(answer, answer.seen)
    assert [core["core"] for core in document["cores"]] == list(range(cpus))
    assert {stretch["core"] for stretch in document["stretches"]} == set(HOT)
    assert document["window"]["cores"] == cpus


@pytest.mark.parametrize("cpus", SIZES)
@pytest.mark.parametrize("name", ["idle", "loop-leaks"])
def test_the_doctor_says_the_same_of_more_of_the_same_cpus(cpus: int, name: str) -> None:
    narrow, broad = (examine(wide(count, (), name), SECONDS) for count in (2, cpus))
    assert broad.diagnosis.origin == narrow.diagnosis.origin
    assert broad.diagnosis.first_remedy == narrow.diagnosis.first_remedy
    lines = drawn(render_report_text(Report(broad.case, broad.diagnosis), Shown(explain=True)))
    assert max(map(len, lines)) <= 80
    assert len(lines) <= len(drawn(render_report_text(Report(narrow.case, narrow.diagnosis), Shown(explain=True)))) + 20
    document = render_report(Report(broad.case, broad.diagnosis))
    assert document["origin"] == broad.diagnosis.origin


@pytest.mark.parametrize("cpus", SIZES)
def test_a_core_that_is_held_is_found_among_many(cpus: int) -> None:
    found = examine(wide(cpus, HOT), SECONDS).diagnosis.finding("saturated-core")
    assert found.verdict == "present"
    assert "core 5 " in found.summary or "core 70 " in found.summary


@pytest.mark.parametrize("cpus", SIZES)
def test_the_agent_exports_no_series_by_cpu(cpus: int) -> None:
    host = wide(cpus, HOT)
    host.go_to(b"/proc/stat")
    state = State(follower(), Thresholds(), "")
    state.take_tick(tick(1, 10))
    watches = {probe.name: probe.open(host) for probe in PROBES if probe.name in ("cores", "softirq")}
    for _ in range(3):
        for name, watch in watches.items():
            assert watch is not None
            reading = watch.read()
            assert isinstance(reading, Reading), reading
            state.take_reading(name, ProbeRun(0.001, None), reading)
        host.wait(1.0)
    text = text_of(state.judge())
    assert sum(not line.startswith("#") for line in text.splitlines()) <= MOST_SERIES
    assert 'zombiescope_core_saturated_seconds_total{mode="system"}' in text
    assert "cpu=" not in text
    assert "core=" not in text
