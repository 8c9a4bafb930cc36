# SPDX-License-Identifier: Apache-2.0
"""The incident's own mechanism, on a kernel that has it (before 6.5): while ksoftirqd stands in line, no interrupt runs the
network's softirqs. Reclaim over thousands of zombies by a process that goes first holds the core; ksoftirqd waits, and every packet
with it."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.build import case, snapshot
from tests.kernel.confined import answer_of_child
from tests.kernel.reclaim_holder import hold_by_reclaim
from tests.kernel.softirq_witness import agree, softirq_witness
from tests.kernel.zombie_maker import Maker
from tests.vm.stories.test_hist_triggers import raise_loopback

from zombiescope.diagnosis.finding import Verdict
from zombiescope.diagnosis.rules import starved_softirq
from zombiescope.facts.softirq import SoftirqSeen
from zombiescope.host.live import LiveHost
from zombiescope.watching.softirq import PollsWatch

pytestmark = [pytest.mark.cells.with_args(lambda cell: cell.kernel == "6.1"), pytest.mark.in_ci("6.1-v1")]
OTHER, CORE = 0, 1
ZOMBIES = 2_000
STEERING = Path("/sys/class/net/lo/queues/rx-0/rps_cpus")


@pytest.fixture
def loopback() -> Iterator[None]:
    """What is sent over it on any core arrives on one."""
    raise_loopback()
    before = STEERING.read_text(encoding="ascii")
    STEERING.write_text(f"{1 << CORE:x}", encoding="ascii")
    yield
    STEERING.write_text(before, encoding="ascii")


def sent(seconds: float) -> float:
    """The longest that a burst of packets was on its way, by the sender's own clock. Bursts, so that ksoftirqd is called for."""
    os.sched_setaffinity(0, {OTHER})
    longest, end = 0.0, time.monotonic() + seconds
    with socket.socket(type=socket.SOCK_DGRAM) as far, socket.socket(type=socket.SOCK_DGRAM) as near:
        far.bind(("127.0.0.1", 0))
        near.connect(far.getsockname())
        while (began := time.monotonic()) < end:
            for _ in range(20):
                near.send(b"x")
            for _ in range(20):
                far.recv(16)
            longest = max(longest, time.monotonic() - began)
            time.sleep(0.002)
    return longest


def finding(watch: PollsWatch) -> Verdict:
    seen = SoftirqSeen(0.0, 60.0, 0.0, None, 0, 0, watch.latencies(), tail=watch.tail())
    return starved_softirq.judge(case(snapshot())._replace(softirq=seen)).verdict


@pytest.mark.usefixtures("loopback")
def test_reclaim_that_goes_first_starves_the_network_and_three_clocks_agree() -> None:
    with Maker("zombiescope-starved") as maker, softirq_witness(CORE) as witness, ThreadPoolExecutor(1) as beside:
        maker.many(ZOMBIES)
        watch = PollsWatch(LiveHost())
        try:
            watch.look()
            calm = float(answer_of_child(lambda: sent(1.0)))
            watch.look()
            at_ease = max(witness.waits())
            if at_ease < 0.1:
                assert finding(watch) is Verdict.ABSENT, (calm, at_ease)
            late = beside.submit(answer_of_child, lambda: sent(5.0))
            time.sleep(0.5)
            held = hold_by_reclaim(CORE, maker.top, 2.5)
            longest = float(late.result())
            watch.look()
            ours = max(each.network.longest_seconds for each in watch.latencies() if each.core == CORE)
            traced, verdict = max(witness.waits()), finding(watch)
        finally:
            watch.close()
    assert traced > 0.2, (held, calm)
    assert agree(ours, traced), (ours, traced)
    assert agree(ours, longest), (ours, longest)
    assert verdict is Verdict.PRESENT
