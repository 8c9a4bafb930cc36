# SPDX-License-Identifier: Apache-2.0
"""Starved softirqs on the running kernel: a core held with softirqs off is named, with length and moment of the wait; a quiet core
is not; and each permission that is missing is a gap of its own."""

from __future__ import annotations

import os
import socket
import threading
import time

import pytest
from tests.build import case, snapshot
from tests.kernel.confined import answer_of_child, keep_only, refuse_bpf
from tests.kernel.conftest import not_here
from tests.kernel.softirq_holder import hold_softirqs

from zombiescope.diagnosis.finding import Finding, Verdict
from zombiescope.diagnosis.rules import starved_softirq
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap
from zombiescope.facts.softirq import CoreLatency, SoftirqSeen
from zombiescope.host.live import LiveHost
from zombiescope.watching.softirq import DetailedSoftirqWatch

pytestmark = pytest.mark.kernel
CORE = max(os.sched_getaffinity(0))
EPERM = 1


def judged(seen: SoftirqSeen | Gap) -> Finding:
    return starved_softirq.judge(case(snapshot())._replace(softirq=seen))


def of_core(seen: SoftirqSeen | Gap, core: int) -> CoreLatency:
    assert isinstance(seen, SoftirqSeen)
    if isinstance(seen.latencies, Gap):
        not_here(seen.latencies.reason)
    assert not isinstance(seen.latencies, Gap)
    return next(each for each in seen.latencies if each.core == core)


@pytest.mark.parametrize(("seconds", "severity"), [(0.3, Severity.WARNING), (1.2, Severity.CRITICAL)])
def test_a_core_held_with_softirqs_off_is_named(seconds: float, severity: Severity) -> None:
    window, began = DetailedSoftirqWatch(LiveHost()), time.monotonic()
    held = hold_softirqs(CORE, seconds)
    seen, ended = window.seen(), time.monotonic()
    worst = of_core(seen, CORE).worst
    assert held.seconds >= seconds
    # The tick that raises the first softirq comes within a hundredth of a second after the hold began, on any machine; on a busy
    # one others may hold the core before and after.
    assert held.seconds - 0.05 <= worst.longest_seconds <= ended - began
    assert worst.longest_at is not None
    assert worst.longest_at - 0.25 < held.began_at < worst.longest_at + worst.longest_seconds
    finding = judged(seen)
    assert (finding.verdict, finding.severity) == (Verdict.PRESENT, severity)
    assert f"core {CORE}" in finding.summary


def test_network_traffic_on_a_core_is_counted_and_its_polls_are_timed() -> None:
    """Over loopback, where the sender's own core receives."""
    window = DetailedSoftirqWatch(LiveHost())

    def talk() -> None:
        os.sched_setaffinity(threading.get_native_id(), {CORE})
        with socket.socket(type=socket.SOCK_DGRAM) as receiver, socket.socket(type=socket.SOCK_DGRAM) as sender:
            receiver.bind(("127.0.0.1", 0))
            for _ in range(500):
                sender.sendto(b"x", receiver.getsockname())
                receiver.recv(16)

    thread = threading.Thread(target=talk)
    thread.start()
    thread.join()
    mine = of_core(window.seen(), CORE)
    assert sum(mine.network.histogram.buckets) >= 500
    assert sum(mine.poll.histogram.buckets) >= 500


def test_without_bpf_the_files_tell_what_they_can() -> None:
    def look() -> list[str]:
        refuse_bpf(EPERM)
        seen = DetailedSoftirqWatch(LiveHost()).seen()
        assert isinstance(seen, SoftirqSeen)
        assert isinstance(seen.waited_seconds, float)
        assert seen.squeezed is not None
        finding = judged(seen)
        if not isinstance(seen.latencies, Gap):
            assert seen.is_least, "what BPF does not tell hist triggers may"
            return ["", "", finding.verdict, finding.summary]
        return [seen.latencies.reason, seen.latencies.hint, finding.verdict, finding.summary]

    reason, hint, verdict, summary = answer_of_child(look)
    if not reason:
        assert verdict in (Verdict.UNKNOWN, Verdict.PRESENT)
        return
    assert "not permitted" in reason
    assert "CAP_BPF" in hint
    assert verdict in (Verdict.UNKNOWN, Verdict.PRESENT)
    assert reason in summary or verdict == Verdict.PRESENT


def test_nobody_gets_what_everybody_may_read() -> None:
    def look() -> list[object]:
        keep_only()
        seen = DetailedSoftirqWatch(LiveHost()).seen()
        assert isinstance(seen, SoftirqSeen)
        return [isinstance(seen.latencies, Gap), isinstance(seen.waited_seconds, Gap)]

    assert answer_of_child(look) == [True, False]


def test_a_window_leaves_nothing_behind() -> None:
    before = len(os.listdir("/proc/self/fd"))
    DetailedSoftirqWatch(LiveHost()).seen()
    assert len(os.listdir("/proc/self/fd")) == before
