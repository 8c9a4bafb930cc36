# SPDX-License-Identifier: Apache-2.0
"""Poll latency, always on: what it costs at 100,000 packets per second over veth, polled in softirqs and in a thread, and over
loopback (by the kernel's own count of what BPF programs take; target: at most 0.2 % of a core), beside stamps on every softirq; and
twenty labelled runs, starved or not, ten of them with figures that no limit was chosen by: precision and recall, and whether our
clock, the tracepoints and the sender agree. Most are starved by real reclaim over 3,000 zombies. Needs root, two cores.

Usage: bench_poll_latency.py [cost|runs]; both without an argument.
"""

from __future__ import annotations

import functools
import os
import random
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from tests.build import case, snapshot
from tests.kernel.reclaim_holder import ZOMBIES, ask_for_reclaim, hold_by_reclaim
from tests.kernel.softirq_holder import hold_softirqs
from tests.kernel.softirq_witness import softirq_witness, thread_witness
from tests.kernel.veth import CORE, OTHER, beside, flood, probe
from tests.kernel.zombie_maker import Maker

from zombiescope.diagnosis.finding import Verdict
from zombiescope.diagnosis.rules import starved_softirq
from zombiescope.facts.softirq import SoftirqSeen
from zombiescope.host.live import LiveHost
from zombiescope.kernel.bpf_object import count_run_times
from zombiescope.probes.readers.softirq_wait import open_poll_latency
from zombiescope.watching.softirq import PollsWatch

PER_SECOND, SECONDS = 100_000, 30.0
TARGET = 0.002
RUN_SECONDS = 4.0
SEED = 20_261_120
MOST_TRIES, LEAST_STARVED = 5, 0.16
"""The shortest single hold that is starvation: a packet in a thousand of a minute waits a tenth of a second."""


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
        for name in ("veth", "veth, polled in a thread", "veth, by the kernel's ticks", "loopback"):
            wait: Callable[[], float]
            if name != "loopback":
                is_threaded = "thread" in name
                work = functools.partial(flood, per_second=PER_SECOND, seconds=SECONDS + 12)
                with beside(CORE, work, OTHER, is_threaded=is_threaded) as outcome:
                    ours, every, runs = _both(has_clock="ticks" not in name)
                    sent = outcome()
                    rate = sent.packets / sent.seconds
            else:
                wait = loopback(SECONDS + 12)
                ours, every, runs = _both()
                rate = wait() / (SECONDS + 12)
            print(f"{name}: {rate:,.0f} packets and {runs:,.0f} runs of softirqs and threads per second")
            print(f"  the agent's programs take {ours:.4%} of a core; target {TARGET:.1%}: {ours / TARGET:.3f} of it")
            print(f"  all stamps all the time: {every:.2%}; ours/that {ours / every:.4f}")
    finally:
        os.close(counting)


def _both(*, has_clock: bool = True) -> tuple[float, float, float]:
    following = open_poll_latency(LiveHost(), has_clock=has_clock)
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
    by: str = "reclaim"
    """What holds: `reclaim` over all zombies by a realtime process; `few`: the same over a sixth of them; `softirqs off`."""
    beside: str = ""


def labelled(seed: int) -> list[Run]:
    """Ten: five starved, five not. The first ten were looked at while limits were chosen; those of another seed never."""
    dice = random.Random(seed)
    long_ones = [tuple(dice.uniform(0.22, 1.2) for _ in range(dice.randint(1, 2))) for _ in range(5)]
    kinds = ["reclaim"] * 4 + ["softirqs off"]
    starved = [
        Run(f"{kind}, {', '.join(f'{each:.2f} s' for each in holds)}", True, holds, kind)
        for kind, holds in zip(kinds, long_ones, strict=True)
    ]
    calm = [
        Run("idle core", False),
        Run("realtime reclaim over few zombies", False, (0.0,) * dice.randint(1, 3), "few"),
        Run("a program burns the core", False, beside="hog"),
        Run("ordinary reclaim over all zombies", False, beside="reclaim"),
        Run("softirqs off, below the limit", False, (dice.uniform(0.05, 0.12),), "softirqs off"),
    ]
    return [*starved, *calm]


@contextmanager
def company(what: str, top: Path) -> Iterator[None]:
    child = os.fork() if what else -1
    if child == 0:
        os.sched_setaffinity(0, {CORE})
        while os.getppid() != 1:
            if what == "reclaim":
                ask_for_reclaim(top)
        os._exit(0)
    try:
        yield
    finally:
        if child > 0:
            os.kill(child, 9)
            os.waitpid(child, 0)


def hold(run: Run, many: Path, few: Path) -> None:
    for seconds in run.holds:
        if run.by == "softirqs off":
            hold_softirqs(CORE, seconds)
        else:
            hold_by_reclaim(CORE, few if run.by == "few" else many, seconds)


def undisturbed(run: Run, many: Path, few: Path) -> tuple[bool, float, float, float]:
    """Once more where a core that we left alone was held by somebody else, as the tracepoints tell."""
    found = one(run, many, few)
    for _ in range(MOST_TRIES):
        if run.is_starved or found[2] < LEAST_STARVED:
            break
        print(f"  again  {run.name:<34} somebody else held the core for {found[2]:.3f} s")
        found = one(run, many, few)
    return found


def one(run: Run, many: Path, few: Path) -> tuple[bool, float, float, float]:
    """Whether it is called starved; the longest wait by us, by the tracepoints and by the sender's clock."""
    is_threaded = run.by != "softirqs off"
    witnessed = thread_witness() if is_threaded else softirq_witness(CORE)
    work = functools.partial(probe, seconds=RUN_SECONDS)
    with closing(PollsWatch(LiveHost())) as watch, witnessed as witness:
        watch.look()
        with beside(CORE, work, OTHER, is_threaded=is_threaded) as outcome:
            watch.look()
            with company(run.beside, many):
                hold(run, many, few)
                sent = outcome()
            time.sleep(0.05)
            watch.look()
        seen = SoftirqSeen(0.0, 60.0, 0.0, None, 0, 0, watch.latencies(), tail=watch.tail())
        verdict = starved_softirq.judge(case(snapshot())._replace(softirq=seen)).verdict
        ours = max((each.network.longest_seconds for each in watch.latencies() if each.core == CORE), default=0.0)
        return verdict is Verdict.PRESENT, ours, max(witness.waits(), default=0.0), sent.longest_seconds


def apart(*clocks: float) -> float:
    """The longest of them against the shortest, less one; what is below a look of our clock is nothing to compare."""
    return max(clocks) / min(clocks) - 1 if min(clocks) >= 0.05 else 0.0


def runs() -> None:
    for title, seed in (("seen while tuning", 1), ("unseen", SEED)):
        with Maker(f"zombiescope-bench-{os.getpid()}") as many, Maker(f"zombiescope-bench-few-{os.getpid()}") as few:
            many.many(ZOMBIES)
            few.many(ZOMBIES // 6)
            rows = [(run, *undisturbed(run, many.top, few.top)) for run in labelled(seed)]
        for run, said, ours, traced, sender in rows:
            mark = "right" if said == run.is_starved else "WRONG"
            print(f"  {mark}  {run.name:<34} ours {ours:.3f} s  tracepoints {traced:.3f} s  sender {sender:.3f} s")
        right = sum(said and run.is_starved for run, said, *_ in rows)
        called, true = sum(row[1] for row in rows), sum(run.is_starved for run, *_ in rows)
        precision = right / called if called else 0.0
        worst = max(apart(*clocks) for _, _, *clocks in rows)
        print(
            f"{title}: {len(rows)} runs, precision {precision:.2f}, recall {right / true:.2f}; clocks at most {worst:.1%} apart"
        )


if __name__ == "__main__":
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    if wanted in ("", "cost"):
        cost()
    if wanted in ("", "runs"):
        runs()
