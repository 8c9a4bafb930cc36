# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from typing import Any

from tests.build import ScriptedHost, case, mountinfo, snapshot

from zombiescope.analysis.pressure import reclaim_since
from zombiescope.diagnosis.finding import Verdict
from zombiescope.diagnosis.rules import cpu_throttling
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import Histogram
from zombiescope.facts.metric_names import RECLAIM_CPU
from zombiescope.facts.reclaim import PressureSeen, ReclaimCalls, ReclaimKind, ReclaimSeen, ThrottledGroup
from zombiescope.watching.reclaim import ReclaimTeller

WITHOUT = case(snapshot())
NOTHING: list[Any] = [0, 0, 0, 0.0, 0.0, 0.0, None, []]


class Told(ScriptedHost):
    """Not live, so that no BPF is tried; the outcome is what a script says."""

    outcome: Any = None

    def experiment(self, name: str, work: object) -> dict[str, Any] | None:
        del name, work
        outcome: dict[str, Any] | None = self.outcome
        return outcome


def told(seconds: float, *limit: Any) -> dict[str, Any]:
    return {"seconds": seconds, "kinds": {"direct": NOTHING, "limit": list(limit) or NOTHING}, "unseen": 0}


def calls_of(probe: ReclaimTeller) -> int:
    seen = probe.fill(WITHOUT).reclaim
    assert isinstance(seen, ReclaimSeen)
    return seen.calls


def pressure_of(probe: ReclaimTeller) -> PressureSeen:
    probe.read()
    seen = probe.fill(WITHOUT).pressure
    assert isinstance(seen, PressureSeen)
    return seen


def test_between_two_readings() -> None:
    def seen(at: float, calls: int, seconds: float, longest: float, when: float) -> ReclaimSeen:
        buckets = Histogram((calls,))
        return ReclaimSeen(
            at, (ReclaimCalls(ReclaimKind.LIMIT, calls, 1, 5, seconds, seconds, longest, when, buckets),)
        )

    lately = reclaim_since(seen(10, 4, 2.0, 1.5, 100.0), seen(20, 6, 2.4, 1.5, 100.0), 130.0)
    (kind,) = lately.kinds
    assert (lately.seconds, kind.calls, kind.pages, kind.histogram.buckets) == (10, 2, 0, (2,))
    assert (round(kind.longest_seconds, 3), kind.longest_at) == (0.2, None), "the longest was before"
    (kind,) = reclaim_since(seen(10, 4, 2.0, 1.5, 100.0), seen(20, 5, 4.0, 2.0, 125.0), 130.0).kinds
    assert (kind.longest_seconds, kind.longest_at) == (2.0, 125.0)


def test_the_agent_tells_calls_of_the_last_minutes_and_keeps_long_ones() -> None:
    host = Told({b"/proc/vmstat": b"pgscan_kswapd 5\n"}, is_live=False)
    probe = ReclaimTeller(host)
    host.outcome = told(10.0)
    first = probe.read()
    assert (dict(first.remembered), first.happened) == ({"reclaim_tasks_seconds": 0.0}, ())
    assert [(each.metric, each.labels, each.value) for each in first.samples] == [(RECLAIM_CPU, ("tasks",), 0.0)]
    host.wait(10)
    host.outcome = told(20.0, 2, 2, 0, 4.0, 3.0, 2.5, host.wall_clock() - 3, [0, 2])
    second = probe.read()
    assert second.remembered == {
        "reclaim_pass_seconds": 2.0,
        "reclaim_cpu_seconds": 3.0,
        "reclaim_tasks_seconds": 3.0,
    }
    assert [event.detail for event in second.happened] == ["limit: 2.5 s, 2 calls"]
    assert calls_of(probe) == 2
    host.wait(10)
    third = probe.read()
    assert (dict(third.remembered), third.happened, calls_of(probe)) == ({"reclaim_tasks_seconds": 3.0}, (), 2)
    probe.close()


def test_pressure_is_that_of_the_last_ten_minutes_each_span_told_once() -> None:
    host = Told({}, is_live=False)
    host.outcome = told(10.0)
    probe, told_of = ReclaimTeller(host), list[PressureSeen]()
    for number in range(70):
        host.change({b"/proc/vmstat": b"pgscan_kswapd %d\nnr_free_pages 1\n" % (number * number)})
        told_of.append(pressure_of(probe))
        host.wait(10)
    assert [len(seen.points) for seen in told_of] == [*range(60), *[60] * 10]
    seen = told_of[-1]
    pages = [round((point.kswapd_pages or 0.0) * point.seconds) for point in seen.points]
    assert pages == [number**2 - (number - 1) ** 2 for number in range(10, 70)]
    assert seen.began_at == seen.points[0].at
    assert round(seen.seconds, 6) == round(sum(point.seconds for point in seen.points), 6)


def test_quotas_are_read_once_a_minute_and_judged_over_ten() -> None:
    stat = b"/c/x/cpu.stat"

    def quota(periods: int, throttled: int) -> bytes:
        return b"nr_periods %d\nnr_throttled %d\nthrottled_usec %d\n" % (periods, throttled, throttled * 50_000)

    host = Told({
        b"/proc/vmstat": b"pgscan_kswapd 5\n", b"/proc/self/mountinfo": mountinfo((b"cgroup2", b"/c", b"/", b"rw")),
        b"/c/cgroup.controllers": b"cpu\n", stat: quota(1000, 900),
    }, is_live=False)  # fmt: skip
    probe = ReclaimTeller(host)
    first = pressure_of(probe)
    assert isinstance(first.throttled, Gap), "one look tells nothing of a time"
    host.change({stat: quota(1600, 1350)})
    for _ in range(5):
        host.wait(10)
        assert isinstance(pressure_of(probe).throttled, Gap)
    host.wait(10)
    seen = pressure_of(probe)
    assert seen.throttled == (ThrottledGroup(b"/x", 600, 450, 22.5),)
    finding = cpu_throttling.judge(WITHOUT._replace(pressure=seen))
    assert (finding.verdict, finding.severity) == (Verdict.PRESENT, Severity.CRITICAL)
    for _ in range(66):
        host.wait(10)
        seen = pressure_of(probe)
    assert seen.throttled == ()
    assert cpu_throttling.judge(WITHOUT._replace(pressure=seen)).verdict is Verdict.ABSENT


def test_without_bpf_the_files_remain() -> None:
    host = Told({b"/proc/vmstat": b"pgscan_kswapd 5\n"}, is_live=False)
    host.outcome = {"gap": ["reclaim", "bpf refused", ""]}
    probe = ReclaimTeller(host)
    assert probe.read().gap == Gap("reclaim", "bpf refused")
    assert isinstance(probe.fill(WITHOUT).pressure, PressureSeen)
