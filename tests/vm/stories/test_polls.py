# SPDX-License-Identifier: Apache-2.0
"""The network's softirqs are followed on every kernel that has BPF, wherever it keeps them; and the doctor's program is taken."""

from __future__ import annotations

import os
import socket
import time

import pytest
from tests.vm.stories.test_hist_triggers import raise_loopback

from zombiescope.facts.gap import Gap
from zombiescope.facts.softirq import SoftirqSeen
from zombiescope.host.live import LiveHost
from zombiescope.watching.softirq import DetailedSoftirqWatch, PollsWatch

pytestmark = [
    pytest.mark.cells.with_args(lambda cell: cell.kernel != "5.10"),
    pytest.mark.in_ci("6.1-v1", "7.2-v2"),
]
PACKETS = 300


def talk() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as receiver, socket.socket(type=socket.SOCK_DGRAM) as sender:
        receiver.bind(("127.0.0.1", 0))
        for _ in range(PACKETS):
            sender.sendto(b"x", receiver.getsockname())
            receiver.recv(16)


def test_the_agent_counts_every_run_and_sees_no_long_wait_where_there_is_none() -> None:
    raise_loopback()
    watch = PollsWatch(LiveHost())
    try:
        watch.look()
        time.sleep(0.5)
        watch.look()
        assert watch.waits["all"].all < PACKETS
        talk()
        time.sleep(1.0)
        watch.look()
        assert watch.waits["all"].all >= PACKETS
        assert watch.waits["worst"].all <= watch.waits["all"].all
        tail = watch.tail()
        assert tail is not None
        assert len(watch.latencies()) <= (os.cpu_count() or 1)
    finally:
        watch.close()


def test_the_doctors_program_is_taken_by_this_kernels_verifier() -> None:
    raise_loopback()
    window = DetailedSoftirqWatch(LiveHost())
    talk()
    seen = window.seen()
    assert isinstance(seen, SoftirqSeen)
    assert not isinstance(seen.latencies, Gap), seen.latencies
    assert not seen.refused
    assert sum(sum(core.network.histogram.buckets) for core in seen.latencies) >= PACKETS
