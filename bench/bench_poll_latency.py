# SPDX-License-Identifier: Apache-2.0
"""Poll latency, always on: what it costs at 100,000 packets per second over veth and over loopback (by the kernel's own count of
what BPF programs take; target: at most 0.2 % of a core), beside the doctor's window, which stamps every softirq; and twenty
labelled runs, starved or not, ten of them with figures that no limit was chosen by: precision and recall. Needs root, two cores.

Usage: bench_poll_latency.py [cost|runs]; both without an argument.
"""

from __future__ import annotations

import os
import random
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from tests.build import case, snapshot
from tests.kernel.softirq_holder import hold_softirqs
from tests.kernel.softirq_witness import softirq_witness
from tests.kernel.veth import beside, flood, probe
from tests.kernel.zombie_maker import Maker

from zombiescope.diagnosis.finding import Verdict
from zombiescope.diagnosis.rules.starved_softirq import judge_starved_softirq
from zombiescope.facts.softirq import SoftirqSeen
from zombiescope.host.live import LiveHost
from zombiescope.kernel.bpf_object import count_run_times
from zombiescope.probes.readers.poll_latency import open_poll_latency
from zombiescope.watching.polls import PollsWatch

PER_SECOND, SECONDS = 100_000, 30.0
TARGET = 0.002
CORES = sorted(os.sched_getaffinity(0))
CORE, OTHER = CORES[-1], CORES[0]
RUN_SECONDS = 4.0
RECLAIM = "memory.force_empty" if os.path.exists("/sys/fs/cgroup/memory/memory.force_empty") else "memory.reclaim"
"""What makes the kernel walk over a group's zombies, by hierarchy."""


def loopback(seconds: float) -> Callable[[], int]:
    """Packets sent in a child: the sender's own core receives, a softirq each."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        sent, begun = 0, time.monotonic()
        with socket.socket(type=socket.SOCK_DGRAM) as sender:
            sender.connect(("127.0.0.1", 9))
            while (now := time.monotonic()) - begun < seconds:
                for _ in range(int((now - begun) * PER_SECOND) - sent):
                    with suppress(OSError):
                        sender.send(b"x")
                    sent += 1
        os.write(writing, str(sent).encode())
        os._exit(0)
    os.close(writing)

    def wait() -> int:
        sent = int(os.read(reading, 64))
        os.close(reading)
        os.waitpid(child, 0)
        return sent

    return wait


def share(look: Callable[[], None], run_times: Callable[[], dict[str, tuple[int, int]]], seconds: float) -> float:
    before, begun = run_times(), time.monotonic()
    while time.monotonic() - begun < seconds:
        time.sleep(5.0)
        look()
    took = time.monotonic() - begun
    after = run_times()
    return sum(after[name][0] - before[name][0] for name in after) / 1e9 / took


def cost() -> None:
    counting = count_run_times()
    try:
        for name in ("veth", "loopback"):
            wait: Callable[[], float]
            if name == "veth":
                with beside(CORE, lambda pair: flood(pair, PER_SECOND, SECONDS + 12), OTHER) as outcome:
                    ours, every, runs = _both()
                    sent = outcome()
                    rate = sent.packets / sent.seconds
            else:
                wait = loopback(SECONDS + 12)
                ours, every, runs = _both()
                rate = wait() / (SECONDS + 12)
            print(f"{name}: {rate:,.0f} packets and {runs:,.0f} network softirqs per second")
            print(f"  the agent's programs take {ours:.4%} of a core; target {TARGET:.1%}: {ours / TARGET:.3f} of it")
            print(f"  all stamps all the time: {every:.2%}; ours/that {ours / every:.4f}")
    finally:
        os.close(counting)


def _both() -> tuple[float, float, float]:
    following = open_poll_latency(LiveHost())
    watch = PollsWatch(LiveHost(), following)
    try:
        watch.look()
        ours = share(watch.look, following.run_times, SECONDS)
        runs = watch.waits["all"].all / SECONDS
        following.stamp()
        every = share(lambda: None, following.run_times, 5.0)
    finally:
        watch.close()
    return ours, every, runs


class Run(NamedTuple):
    name: str
    is_starved: bool
    holds: tuple[float, ...] = ()
    """Seconds each, one after the other."""
    beside: str = ""


def labelled(seed: int) -> list[Run]:
    """Ten: five starved, five not. The first ten were looked at while limits were chosen; those of another seed never."""
    dice = random.Random(seed)
    long_ones = [tuple(dice.uniform(0.22, 1.2) for _ in range(dice.randint(1, 2))) for _ in range(5)]
    starved = [Run(f"held {', '.join(f'{each:.2f} s' for each in holds)}", True, holds) for holds in long_ones]
    calm = [
        Run("idle core", False),
        Run("many short holds", False, tuple(dice.uniform(0.002, 0.02) for _ in range(6))),
        Run("a program burns the core", False, beside="hog"),
        Run("reclaim over zombies on the core", False, beside="reclaim"),
        Run("one hold below the limit", False, (dice.uniform(0.05, 0.12),)),
    ]
    return [*starved, *calm]


@contextmanager
def company(what: str, maker: Maker | None) -> Iterator[None]:
    ended = threading.Event()
    child = os.fork() if what else -1
    if child == 0:
        os.sched_setaffinity(0, {CORE})
        while os.getppid() != 1:
            if what == "reclaim" and maker is not None:
                with suppress(OSError):
                    (maker.top / RECLAIM).write_text("1M" if RECLAIM == "memory.reclaim" else "0")
        os._exit(0)
    try:
        yield
    finally:
        ended.set()
        if child > 0:
            os.kill(child, 9)
            os.waitpid(child, 0)


def one(run: Run, maker: Maker) -> tuple[bool, float, float, float]:
    """Whether it is called starved; the longest wait by us, by the tracepoints and by the sender's clock."""
    with softirq_witness(CORE) as witness, beside(CORE, lambda pair: probe(pair, RUN_SECONDS), OTHER) as outcome:
        watch = PollsWatch(LiveHost())
        try:
            watch.look()
            with company(run.beside, maker):
                for seconds in run.holds:
                    hold_softirqs(CORE, seconds)
                sent = outcome()
            time.sleep(0.05)
            watch.look()
            seen = SoftirqSeen(0.0, 60.0, 0.0, None, 0, 0, watch.latencies(), tail=watch.tail())
            verdict = judge_starved_softirq(case(snapshot())._replace(softirq=seen)).verdict
            ours = max((each.network.longest_seconds for each in watch.latencies() if each.core == CORE), default=0.0)
        finally:
            watch.close()
        return verdict is Verdict.PRESENT, ours, max(witness.waits(), default=0.0), sent.longest_seconds


def runs() -> None:
    for title, seed in (("seen while tuning", 1), ("unseen", 20_261_118)):
        with Maker(f"zombiescope-bench-{os.getpid()}") as maker:
            maker.many(3_000)
            assert (maker.top / RECLAIM).exists(), "no way to ask for reclaim"
            rows = [(run, *one(run, maker)) for run in labelled(seed)]
        for run, said, ours, traced, sender in rows:
            mark = "right" if said == run.is_starved else "WRONG"
            print(f"  {mark}  {run.name:<34} ours {ours:.3f} s  tracepoints {traced:.3f} s  sender {sender:.3f} s")
        right = sum(said and run.is_starved for run, said, *_ in rows)
        called, true = sum(row[1] for row in rows), sum(run.is_starved for run, *_ in rows)
        precision = right / called if called else 0.0
        print(f"{title}: {len(rows)} runs, precision {precision:.2f}, recall {right / true:.2f}")


if __name__ == "__main__":
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    if wanted in ("", "cost"):
        cost()
    if wanted in ("", "runs"):
        runs()
