# SPDX-License-Identifier: Apache-2.0
"""The agent's eye on the network's softirqs: one wait is an event, waits that come back are a finding, and growing is said."""

from __future__ import annotations

import pytest
from tests.build import ScriptedHost, case, snapshot
from tests.unit.analysis.test_softirq import buckets, core

from zombiescope.diagnosis.finding import Finding, Verdict
from zombiescope.diagnosis.rules import starved_softirq
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.errors import ObservationError
from zombiescope.facts.agent import Reading
from zombiescope.facts.softirq import PollCore, PollLook, SoftirqSeen, ThreadRuns
from zombiescope.watching import softirq
from zombiescope.watching.softirq import PollsTeller, PollsWatch


class Script:
    """Stands for the kernel: what is read next is what the test put there."""

    def __init__(self) -> None:
        self.at = 1000.0
        self.runs, self.longs = 1000, dict[int, tuple[int, float]]()
        self.is_stamping = False
        self.slices = 0
        self.open_seconds = 0.0
        self.looks = 0
        self.threads = (0, 0)

    def pass_time(self, seconds: float, runs: int = 100, waits: dict[int, float] | None = None) -> None:
        """`waits`: by bucket of powers of two of microseconds, the length of one."""
        self.at += seconds
        self.looks += 500
        self.runs += runs
        for place, length in (waits or {}).items():
            count, total = self.longs.get(place, (0, 0.0))
            self.longs[place] = (count + 1, total + length)

    def read(self) -> PollLook:
        plain = core(1, self.runs, stamped=buckets(b4=self.runs if self.is_stamping else 0))
        waits = plain.waits._replace(
            counts=tuple(self.longs.get(place, (0, 0.0))[0] for place in range(32)),
            sums_ns=tuple(int(self.longs.get(place, (0, 0.0))[1] * 1e9) for place in range(32)),
            open_seconds=self.open_seconds,
        )
        quiet: PollCore = core(0, 500)
        return PollLook(
            self.at, self.at, (quiet, plain._replace(waits=waits)), self.looks, 0.01, True, 0.0, *self.threads
        )

    def stamp(self) -> None:
        self.is_stamping = True

    def rest(self) -> None:
        self.is_stamping = False

    def stamp_for(self, seconds: float) -> float | None:
        self.slices += 1
        return 3e-7

    def close(self) -> None:
        self.is_stamping = False


def judged(watch: PollsWatch) -> Finding:
    seen = SoftirqSeen(0.0, 60.0, 0.0, None, 0, 0, watch.latencies(), tail=watch.tail())
    return starved_softirq.judge(case(snapshot())._replace(softirq=seen))


def begun() -> tuple[Script, PollsWatch]:
    script = Script()
    watch = PollsWatch(ScriptedHost({}), script)  # type: ignore[arg-type]
    watch.look()
    return script, watch


def test_an_idle_core_is_no_finding() -> None:
    script, watch = begun()
    for _ in range(24):
        script.pass_time(5)
        watch.look()
    found = judged(watch)
    assert (found.verdict, found.severity) == (Verdict.ABSENT, Severity.OK)
    assert watch.waits["all"].all == 2400
    assert script.is_stamping, "few softirqs: all of them are stamped"


def test_waits_that_come_back_and_grow_are_a_warning_before_any_reset() -> None:
    script, watch = begun()
    for minute in range(8):
        for number in range(12):
            waits = {18: 0.14 + 0.03 * minute} if number % 4 == 0 else {}
            script.pass_time(5, waits=waits)
            watch.look()
    found = judged(watch)
    assert (found.verdict, found.severity) == (Verdict.PRESENT, Severity.WARNING)
    assert "it grows" in found.summary
    assert "core 1" in found.summary
    tail = watch.tail()
    assert tail is not None
    assert tail.is_growing
    assert 0.25 < tail.p999_seconds < 0.35
    assert watch.long_waits == 24


def test_one_late_softirq_that_is_over_is_an_event_and_no_finding() -> None:
    script, watch = begun()
    script.pass_time(5, waits={19: 0.5})
    watch.look()
    assert judged(watch).verdict is Verdict.PRESENT, "within the minute it is"
    for _ in range(13):
        script.pass_time(5)
        watch.look()
    assert judged(watch).verdict is Verdict.ABSENT


def test_a_wait_that_is_not_over_counts() -> None:
    script, watch = begun()
    script.open_seconds = 2.5
    script.pass_time(5, runs=0)
    watch.look()
    found = judged(watch)
    assert (found.verdict, found.severity) == (Verdict.PRESENT, Severity.CRITICAL)
    assert "waited still" in found.summary


def test_many_softirqs_are_stamped_a_slice_of_the_time() -> None:
    script, watch = begun()
    for _ in range(12):
        script.pass_time(5, runs=500_000)
        watch.look()
    assert not script.is_stamping
    assert 3 <= script.slices <= 5
    tail = watch.tail()
    assert tail is not None
    assert tail.stamped_share == 0.0


def test_a_clock_that_stands_still_is_said() -> None:
    _, watch = begun()
    with pytest.raises(ObservationError, match="clock went away"):
        watch.look()


def test_the_agent_tells_histograms_of_all_and_of_the_worst_core(monkeypatch: pytest.MonkeyPatch) -> None:
    script = Script()
    monkeypatch.setattr(softirq, "open_poll_latency", lambda _: script)
    teller = PollsTeller(ScriptedHost({}))
    assert teller.read() == Reading()
    script.pass_time(5, runs=100, waits={19: 0.4})
    reading = teller.read()
    assert {(each.metric.name, each.labels) for each in reading.histograms} == {
        (f"zombiescope_poll_{name}_seconds", (cores,)) for name in ("wait", "run") for cores in ("all", "worst")
    }
    waits = next(each for each in reading.histograms if each.labels == ("worst",))
    assert waits.at_most == (99.0, 99.0, 100.0)
    assert reading.remembered["poll_waits_long"] == 1
    assert [each.what for each in reading.happened] == ["poll-late"]
    assert "core 1: the network waited once, 0.4 s at most" in reading.happened[0].detail
    teller.close()


def test_threads_that_poll_are_counted_by_the_schedulers_account_and_too_many_are_a_gap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Threaded(Script):
        waited = ThreadRuns()

        def read(self) -> PollLook:
            look = super().read()
            quiet, busy = look.cores
            return look._replace(cores=(quiet, busy._replace(threads=self.waited)))

    script = Threaded()
    monkeypatch.setattr(softirq, "open_poll_latency", lambda _: script)
    teller = PollsTeller(ScriptedHost({}))
    teller.read()
    script.waited, script.threads = ThreadRuns(runs=100, seconds=2.0, longs=1), (256, 300)
    script.pass_time(5, runs=50, waits={19: 0.4})
    reading = teller.read()
    waits = next(each for each in reading.histograms if each.labels == ("all",))
    assert waits.all == 151
    assert waits.at_most == (50.0, 150.0, 151.0), "short softirqs; 20 ms on average; the long one"
    assert waits.seconds == pytest.approx(2.4, abs=0.01)
    assert reading.gap is not None
    assert not script.is_stamping, "how often threads poll is not known: a slice of the time at most"
    assert script.slices == 1
    assert reading.gap.reason == "300 threads poll the network, of which 256 are followed"
    teller.close()
