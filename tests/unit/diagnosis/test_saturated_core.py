# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from tests.build import case, snapshot

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Verdict
from zombiescope.diagnosis.rules import saturated_core
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.cores import Blame, Blamed, CoreMode, CoresSeen, Share, Stretch
from zombiescope.facts.gap import Gap

BEGAN = 1_700_000_000.0


def seen(*stretches: Stretch) -> Case:
    return case(snapshot())._replace(cores=CoresSeen(BEGAN, 10, 0.1, 2, stretches))


def test_a_window_that_saw_nothing_says_how_long_it_was() -> None:
    finding = saturated_core.judge(seen())
    assert finding.verdict is Verdict.ABSENT
    assert finding.summary == "not seen in 10 s on 2 cores"


def test_a_short_stretch_is_told_and_is_no_finding() -> None:
    finding = saturated_core.judge(seen(Stretch(1, BEGAN, 0.7, CoreMode.SYSTEM, 0.9)))
    assert finding.verdict is Verdict.ABSENT
    assert finding.summary.endswith("(longest 0.7 s, on core 1)")


@pytest.mark.parametrize(
    ("seconds", "severity"), [(1.0, Severity.WARNING), (4.9, Severity.WARNING), (5.0, Severity.CRITICAL)]
)
def test_severity_by_the_longest(seconds: float, severity: Severity) -> None:
    finding = saturated_core.judge(
        seen(Stretch(0, BEGAN, 0.6, CoreMode.IRQ, 0.8), Stretch(1, BEGAN + 1, seconds, CoreMode.SYSTEM, 0.97))
    )
    assert (finding.verdict, finding.severity) == (Verdict.PRESENT, severity)
    assert (
        finding.summary
        == f"core 1 was {seconds} s in the kernel without a break, and 1 more stretch on 2 cores in 10 s"
    )
    facts = {item.fact: (item.value, item.at) for item in finding.evidence}
    assert facts["core[1].system_seconds"] == (seconds, BEGAN + 1)
    assert facts["core[0].kernel_share"] == (0.8, BEGAN)


@pytest.mark.parametrize(
    ("mode", "words"),
    [(CoreMode.STEAL, "taken by the hypervisor"), (CoreMode.SOFTIRQ, "in softirqs"), (CoreMode.IRQ, "in interrupts")],
)
def test_who_held_it(mode: CoreMode, words: str) -> None:
    finding = saturated_core.judge(seen(Stretch(0, BEGAN, 2, mode, 1, is_cut=True)))
    assert finding.summary == f"core 0 was at least 2.0 s {words} without a break"


def test_who_burnt_it_is_evidence_where_it_was_sampled() -> None:
    stretch = Stretch(1, BEGAN, 2.0, CoreMode.SYSTEM, 0.99)
    burnt = Blamed(1, BEGAN, 190, (Share("mem_cgroup_iter", 0.4),), (Share("reclaim", 0.93),), (Share("kubelet", 1.0),))
    told = seen(stretch).cores
    assert isinstance(told, CoresSeen)
    finding = saturated_core.judge(seen()._replace(cores=told._replace(blame=Blame(99, 190, 0, (burnt,)))))
    assert finding.summary.endswith("; for kubelet (100%), reclaim 93%")
    facts = {item.fact: (item.value, item.source) for item in finding.evidence}
    assert facts["core[1].cause"] == ("reclaim 93%", "perf_event_open")
    assert facts["core[1].function"] == ("mem_cgroup_iter 40%", "perf_event_open")


def test_cores_that_could_not_be_watched_are_unknown() -> None:
    finding = saturated_core.judge(case(snapshot())._replace(cores=Gap("cores", "/proc/stat: no such file")))
    assert (finding.verdict, finding.summary) == (Verdict.UNKNOWN, "/proc/stat: no such file")
    assert saturated_core.judge(case(snapshot())).verdict is Verdict.UNKNOWN
