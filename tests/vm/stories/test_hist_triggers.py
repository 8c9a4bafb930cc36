# SPDX-License-Identifier: Apache-2.0
"""Softirqs counted by hist triggers where BPF is refused; whatever ends the window, nothing of it stays behind."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.build import case, snapshot
from tests.kernel.confined import answer_of_child, refuse_bpf

from zombiescope.diagnosis.rules import starved_softirq
from zombiescope.facts.gap import Gap
from zombiescope.facts.softirq import SoftirqSeen
from zombiescope.host.live import LiveHost
from zombiescope.kernel.tracefs import SoftirqHist, open_tracefs
from zombiescope.watching.softirq import DetailedSoftirqWatch

pytestmark = pytest.mark.cells.with_args(lambda cell: cell.name == "6.1-v2-mini")
CORE, PACKETS, EPERM = 0, 500, 1
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1


def left_behind() -> list[str]:
    """Ours, of the whole machine."""
    top = open_tracefs()
    try:
        folder = os.open("instances", os.O_RDONLY | os.O_DIRECTORY, dir_fd=top)
        try:
            names = os.listdir(folder)
        finally:
            os.close(folder)
        with os.fdopen(os.open("synthetic_events", os.O_RDONLY, dir_fd=top)) as file:
            names += file.read().split("\n")
    finally:
        os.close(top)
    return [name for name in names if name.startswith("zombiescope")]


def until(is_true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not is_true():
        assert time.monotonic() < end, left_behind()
        time.sleep(0.02)


def raise_loopback() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as any_socket:
        asked = bytearray(struct.pack("16sh22x", b"lo", 0))
        fcntl.ioctl(any_socket, _GET_FLAGS, asked)
        flags = struct.unpack_from("h", asked, 16)[0] | _UP
        fcntl.ioctl(any_socket, _SET_FLAGS, struct.pack("16sh22x", b"lo", flags))


def talk() -> None:
    """Over loopback the sender's own core receives."""
    raise_loopback()
    os.sched_setaffinity(0, {CORE})
    with socket.socket(type=socket.SOCK_DGRAM) as receiver, socket.socket(type=socket.SOCK_DGRAM) as sender:
        receiver.bind(("127.0.0.1", 0))
        for _ in range(PACKETS):
            sender.sendto(b"x", receiver.getsockname())
            receiver.recv(16)


def test_every_packet_is_counted_on_its_core_and_the_rest_is_said() -> None:
    def look() -> list[object]:
        refuse_bpf(EPERM)
        window = DetailedSoftirqWatch(LiveHost())
        talk()
        seen = window.seen()
        assert isinstance(seen, SoftirqSeen)
        assert not isinstance(seen.latencies, Gap), seen.latencies
        assert seen.is_least
        mine = next(each for each in seen.latencies if each.core == CORE)
        finding = starved_softirq.judge(case(snapshot())._replace(softirq=seen))
        return [sum(mine.network.histogram.buckets), mine.network.longest_seconds, finding.verdict, finding.summary]

    counted, longest, verdict, summary = answer_of_child(look)
    assert counted >= PACKETS
    assert 0 <= longest < 60
    assert verdict == "unknown" or longest >= 0.1, "what is short here may have been longer"
    assert "core 0" in summary
    assert left_behind() == []


def test_nothing_stays_of_one_that_was_killed() -> None:
    child, _ = _watching_child()
    assert left_behind()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    until(lambda: not left_behind())


def test_what_stays_of_one_killed_together_with_its_guard_goes_with_the_next_window() -> None:
    child, guard = _watching_child()
    os.kill(guard, signal.SIGKILL)
    until(lambda: Path(f"/proc/{guard}/stat").read_text().rpartition(")")[2].split()[0] == "Z")
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert left_behind()
    SoftirqHist().close()
    assert left_behind() == []


def _watching_child() -> tuple[int, int]:
    """A process in the middle of a window, and the child of its own that waits for its end."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        watch = SoftirqHist()
        os.write(writing, b"ready")
        time.sleep(600)
        watch.close()
        os._exit(0)
    os.close(writing)
    assert os.read(reading, 5) == b"ready"
    os.close(reading)
    (guard,) = map(int, Path(f"/proc/{child}/task/{child}/children").read_text().split())
    return child, guard
