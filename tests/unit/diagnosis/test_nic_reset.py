# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

import pytest
from tests.build import case, snapshot

from zombiescope.diagnosis.finding import Finding, Verdict
from zombiescope.diagnosis.rules import nic_reset
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap
from zombiescope.facts.kernel_log import KernelLog, LogSource
from zombiescope.facts.softirq import DeviceCounters, NicCounters
from zombiescope.probes.kernel_messages import parse_line

NOW = 1_700_000_000.25
ENA = b"ena 0000:00:05.0 eth0: "
STARVED = (
    ENA
    + b"TX q 5 is paused for too long (threshold 5000000). usecs since napi 6400000. napi scheduled: 1. napi CPU: 11. "
    b"msecs since interrupt: 6402"
)
QUIET = (DeviceCounters("eth0", 0, {"suspected_poll_starvation": 0}),)
GAP = Gap("x", "refused")


def log(*lines: tuple[float, bytes]) -> KernelLog:
    events = [parse_line(NOW - ago, line) for ago, line in lines]
    return KernelLog(LogSource.KMSG, NOW - 7200, NOW, 340, 0, 0, tuple(event for event in events if event))


def counters(last: tuple[DeviceCounters, ...] = QUIET) -> NicCounters:
    return NicCounters(NOW, 10.0, QUIET, last)


def judged(**facts: Any) -> Finding:
    return nic_reset.judge(case(snapshot())._replace(**facts))


def test_a_starved_poll_is_critical_and_says_queue_core_and_delay() -> None:
    finding = judged(kernel_log=log((60, STARVED)), nic_counters=counters())
    assert (finding.verdict, finding.severity) == (Verdict.PRESENT, Severity.CRITICAL)
    assert finding.summary == (
        "once in the last day, because its poll was starved of its core: queue 5 of eth0, polled on CPU 11, which did not run "
        "for 6.4 s"
    )
    assert {item.fact: item.value for item in finding.evidence}["nic_reset[eth0].napi_cpu"] == 11
    assert {item.at for item in finding.evidence if "reason" in item.fact} == {NOW - 60}


@pytest.mark.parametrize(("times", "severity"), [(1, Severity.WARNING), (3, Severity.CRITICAL)])
def test_one_reset_is_a_warning_and_many_are_critical(times: int, severity: Severity) -> None:
    lines = [(100.0 * (i + 1), ENA + b"Keep alive watchdog timeout.") for i in range(times)]
    assert judged(kernel_log=log(*lines), nic_counters=counters()).severity is severity


def test_an_old_reset_is_history() -> None:
    finding = judged(kernel_log=log((100_000, STARVED)), nic_counters=counters())
    assert finding.verdict is Verdict.ABSENT
    assert finding.summary == "no reset in the kernel log of 2.0 h, and no driver counted one in 10 s"


def test_the_drivers_counters_alone_are_enough() -> None:
    grown = (DeviceCounters("eth0", 2, {"suspected_poll_starvation": 0}),)
    finding = judged(kernel_log=GAP, nic_counters=counters(grown))
    assert (finding.verdict, finding.severity) == (Verdict.PRESENT, Severity.CRITICAL)
    starved = (DeviceCounters("eth0", 0, {"suspected_poll_starvation": 4}),)
    before = NicCounters(NOW, 10.0, starved, starved)
    assert judged(kernel_log=GAP, nic_counters=before).summary == (
        "the driver suspected a starved poll 4 times since it was loaded"
    )


@pytest.mark.parametrize(
    "facts", [{"kernel_log": GAP, "nic_counters": counters()}, {"kernel_log": log(), "nic_counters": GAP}, {}]
)
def test_absent_needs_both_witnesses(facts: dict[str, Any]) -> None:
    finding = judged(**facts)
    assert finding.verdict is Verdict.UNKNOWN
    assert finding.summary
