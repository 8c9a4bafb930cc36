# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from itertools import pairwise

import pytest
from tests.build import case, snapshot

from zombiescope.analysis.softirq import derive_softirq, step_between
from zombiescope.diagnosis.finding import Finding, Verdict
from zombiescope.diagnosis.rules import starved_softirq
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import Histogram
from zombiescope.facts.softirq import CoreLatency, KsoftirqdTime, SoftirqLook, SoftirqSeen, WaitTimes

NO_BPF = Gap("softirq.latencies", "bpf refused")
CALM = WaitTimes(Histogram((9, 1)), 3e-5, 1_700_000_001.0)


def looks(*waits: dict[int, tuple[int, int]]) -> list[SoftirqLook]:
    """(wait ns, slices) by core, a second apart."""
    return [
        SoftirqLook(100.0 + i, float(i), {core: KsoftirqdTime(0, *pair) for core, pair in wait.items()}, 5 + i, 0)
        for i, wait in enumerate(waits)
    ]


def seen_by(looks: list[SoftirqLook], latencies: tuple[CoreLatency, ...] | Gap) -> SoftirqSeen:
    return derive_softirq([step_between(before, after) for before, after in pairwise(looks)], latencies)


def judged(seen: SoftirqSeen | Gap) -> Finding:
    return starved_softirq.judge(case(snapshot())._replace(softirq=seen))


def latency(core: int, seconds: float, *, is_open: bool = False) -> CoreLatency:
    return CoreLatency(core, WaitTimes(Histogram((1,)), seconds, 1_700_000_000.0, is_open), CALM, CALM, CALM)


QUIET = looks({0: (0, 0)}, {0: (0, 0)})


@pytest.mark.parametrize(
    ("seconds", "verdict", "severity"),
    [
        (0.099, Verdict.ABSENT, Severity.OK),
        (0.1, Verdict.PRESENT, Severity.WARNING),
        (1.0, Verdict.PRESENT, Severity.CRITICAL),
    ],
)
def test_alarm_at_a_tenth_and_critical_at_a_second(seconds: float, verdict: Verdict, severity: Severity) -> None:
    finding = judged(seen_by(QUIET, (latency(0, 1e-5), latency(7, seconds))))
    assert (finding.verdict, finding.severity) == (verdict, severity)
    assert "core 7" in finding.summary
    assert any(item.fact == "core[7].network.longest" and item.value == seconds for item in finding.evidence)


def test_ksoftirqd_behind_a_busy_program_is_no_starvation_when_its_work_was_done() -> None:
    """Seen on 6.18 with both cores busy in user mode: ksoftirqd waited 300 ms, softirqs 30 ms at most."""
    busy = CoreLatency(1, CALM, CALM._replace(longest_seconds=0.03), CALM, CALM._replace(longest_seconds=0.3))
    finding = judged(seen_by(QUIET, (busy,)))
    assert finding.verdict is Verdict.ABSENT
    assert any(item.fact == "core[1].ksoftirqd.longest" and item.value == 0.3 for item in finding.evidence)


def test_a_wait_that_is_not_over_says_so() -> None:
    finding = judged(seen_by(QUIET, (latency(3, 2.5, is_open=True),)))
    assert finding.summary == "a network softirq waited 2.50 s for core 3 and waited still"


def test_without_bpf_ksoftirqds_wait_is_a_suspicion_that_takes_a_second_witness() -> None:
    waited = seen_by(looks({0: (0, 0), 1: (0, 0)}, {0: (5_000, 9), 1: (600_000_000, 2)}), NO_BPF)
    words = "ksoftirqd of core 1 waited 300.0 ms each time, 600.0 ms in all"
    alone = judged(waited)
    assert (alone.verdict, alone.severity) == (Verdict.UNKNOWN, Severity.UNKNOWN)
    assert alone.summary == f"{words}; whether softirqs waited with it is not known: bpf refused"
    assert waited.longest is not None
    with_drops = judged(waited._replace(longest=waited.longest._replace(dropped=3)))
    assert (with_drops.verdict, with_drops.severity) == (Verdict.PRESENT, Severity.WARNING)
    assert with_drops.summary == f"{words}, and 3 packets were dropped meanwhile"
    blind = judged(waited._replace(longest=waited.longest._replace(dropped=None)))
    assert blind.verdict is Verdict.UNKNOWN, "not read is not none"
    elsewhere = judged(waited._replace(dropped=9))
    assert elsewhere.verdict is Verdict.UNKNOWN, "drops at another time prove nothing"
    calm = judged(seen_by(QUIET, NO_BPF))
    assert (calm.verdict, calm.summary) == (Verdict.UNKNOWN, "no softirq waited; more is not known: bpf refused")


def test_hist_triggers_can_say_that_it_starved_and_never_that_it_did_not() -> None:
    """They know the last raise alone: a wait is at least so long."""

    def told(seconds: float) -> Finding:
        times = WaitTimes(Histogram((1,)), seconds)
        core = CoreLatency(2, times, WaitTimes(), WaitTimes(), WaitTimes())
        return judged(seen_by(QUIET, (core,))._replace(is_least=True, refused="bpf(2) is not allowed"))

    assert (told(0.25).verdict, told(0.25).severity) == (Verdict.PRESENT, Severity.WARNING)
    assert told(1.5).severity is Severity.CRITICAL
    short = told(0.001)
    assert short.verdict is Verdict.UNKNOWN
    assert "it may have been longer" in short.summary
    assert "bpf(2) is not allowed" in short.summary, "the reason is not swallowed"
    (item,) = [item for item in short.evidence if item.fact.startswith("core[2]")]
    assert (item.fact, item.value, item.source) == ("core[2].network.longest", 0.001, "hist triggers")


def test_a_gap_is_unknown() -> None:
    assert judged(Gap("softirq", "no such view")).summary == "no such view"
    assert starved_softirq.judge(case(snapshot())).verdict is Verdict.UNKNOWN
    unseen = Gap("softirq.waited_seconds", "hidden")
    blind = seen_by([look._replace(ksoftirqd=unseen) for look in QUIET], (latency(0, 1e-5),))
    assert blind.waited_seconds == unseen
    assert judged(blind).verdict is Verdict.UNKNOWN


def test_sums_and_a_thread_that_was_replaced() -> None:
    seen = seen_by(looks({0: (10, 1)}, {0: (1_000_000_010, 2)}, {0: (4, 1)}, {0: (2_000_000_004, 9)}), NO_BPF)
    assert seen.waited_seconds == 3.0
    assert seen.longest is not None
    assert (seen.longest.seconds, seen.longest.at, seen.longest.slices) == (2.0, 102.0, 8)
    assert (seen.squeezed, seen.dropped, seen.seconds) == (3, 0, 3.0)
