# SPDX-License-Identifier: Apache-2.0
"""`find` on real captures, made now (root): live_moments.py [ROUNDS].

Each round records four times, by turns with our own sampler and with perf: a core held in the kernel (a pinned real-time process
that reads /dev/zero, for seconds that it says itself), the same among neighbours in user code and in system calls, neighbours
alone, and nothing. What the machine does besides is in all of them: a moment most of which belongs to processes not started
here has no label, and is counted apart.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.profile.find_moments import overlap
from bench.profile.labelled import Truth

from zombiescope.profiler.asking import open_capture
from zombiescope.profiler.stacks.capture import KERNEL_MODE, Capture
from zombiescope.profiler.stacks.flame_graph import shape_of
from zombiescope.profiler.stacks.saturation import Moment, explain, find_moments

SECONDS, RATE = 14, 199
KINDS = ("held", "held among neighbours", "neighbours alone", "quiet")
HOLD = """
import os, sys, time
cpu, wait, length = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
os.sched_setaffinity(0, {cpu})
os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
time.sleep(wait)
zero, room = os.open("/dev/zero", os.O_RDONLY), bytearray(8 << 20)
begin = time.monotonic()
while time.monotonic() < begin + length:
    os.readv(zero, [room])
print(begin, time.monotonic())
"""
NEIGHBOUR = """
import os, random, time
while True:
    end = time.monotonic() + random.uniform(0.2, 1.5)
    while time.monotonic() < end:
        sum(range(20000)); os.listdir("/proc/self")
    time.sleep(random.uniform(0.1, 1.0))
"""


@contextmanager
def neighbours(count: int) -> Iterator[set[int]]:
    started = [subprocess.Popen([sys.executable, "-c", NEIGHBOUR]) for _ in range(count)]
    try:
        yield {one.pid for one in started}
    finally:
        for one in started:
            one.kill()
            one.wait()


def is_foreign(capture: Capture, moment: Moment, ours: set[int]) -> bool:
    """Most of its kernel work was done by processes that were not started here."""
    first, last = (int(capture.time[0]) + round(at * 1e9) for at in (moment.begin, moment.end))
    inside = (capture.time >= first) & (capture.time < last) & (capture.cpu == moment.cpu)
    pids = capture.pid[inside & (capture.mode == KERNEL_MODE) & ~capture.idle]
    return bool(np.mean(np.isin(pids, list(ours))) < 0.5) if len(pids) else False


def has_begun(folder: Path) -> None:
    """Returns when it samples: on a loaded machine that takes seconds."""
    while not any(file.stat().st_size for file in folder.glob("*.recording")):
        time.sleep(0.1)


def once(kind: str, source: str, dice: random.Random, folder: Path) -> tuple[int, int, int, int, int]:
    """Truths, truths found, moments, moments that are right, moments without a label."""
    cores = sorted(os.sched_getaffinity(0))
    record = [sys.executable, "-m", "zombiescope", "profile", "record", "--with", source, "--rate", str(RATE)]
    record += ["--seconds", str(SECONDS), "--captures", str(folder)]
    with neighbours(len(cores) if "neighbours" in kind else 0) as ours:
        recording = subprocess.Popen(record, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        ours.add(recording.pid)
        told: list[tuple[int, float, float]] = []
        if kind.startswith("held"):
            has_begun(folder)
            cpu, wait, length = dice.choice(cores), dice.uniform(3, 5), dice.uniform(1.0, 4.0)
            hold = [sys.executable, "-c", HOLD, str(cpu), str(wait), str(length)]
            with subprocess.Popen(hold, stdout=subprocess.PIPE, text=True) as holding:
                ours.add(holding.pid)
                said = holding.communicate()[0].split()
            told.append((cpu, float(said[0]), float(said[1])))
        assert recording.wait() == 0
    capture = open_capture(os.fsencode(folder), "latest").capture
    first = int(capture.time[0]) / 1e9
    truths = [Truth(cpu, begin - first, end - first) for cpu, begin, end in told]
    everything = find_moments(capture)
    moments = [moment for moment in everything if not is_foreign(capture, moment, ours)]
    shape = shape_of(capture.tree)
    found = sum(any(overlap(m, t) >= 0.5 * (t.end - t.begin) for m in moments) for t in truths)
    right = sum(any(overlap(m, t) >= 0.5 * (m.end - m.begin) for t in truths) for m in moments)
    print(
        f"{kind} ({source}, {len(capture):,} samples): found {found} of {len(truths)}, {right} of {len(moments)} moments right"
    )
    for truth in truths:
        print(f"   held    core {truth.cpu}, {truth.begin:.1f} s to {truth.end:.1f} s")
    for moment in everything:
        leaf = " ".join(explain(capture, shape, moment).stack[-1:])
        whose = "moment " if moment in moments else "foreign"
        print(f"   {whose} core {moment.cpu}, {moment.begin:.1f} s to {moment.end:.1f} s: {leaf}")
    return len(truths), found, len(moments), right, len(everything) - len(moments)


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    dice = random.Random(time.time_ns())
    totals = [0, 0, 0, 0, 0]
    for number in range(rounds):
        for index, kind in enumerate(KINDS):
            with tempfile.TemporaryDirectory(prefix="zombiescope-bench-") as folder:
                source = ("own", "perf")[(number + index) % 2]
                totals = [a + b for a, b in zip(totals, once(kind, source, dice, Path(folder)), strict=True)]
    truths, found, moments, right, foreign = totals
    print(
        f"{rounds * len(KINDS)} real captures, {truths} truths: recall {found / max(1, truths):.2f} (at least 0.95), "
        f"precision {right / max(1, moments):.2f} (at least 0.9); {foreign} moments of processes not started here"
    )


if __name__ == "__main__":
    main()
