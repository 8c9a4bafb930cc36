# SPDX-License-Identifier: Apache-2.0
"""What recording costs: overhead.py [PAIRS [HZ [SECONDS]]], SECONDS of a capture. Every core is busy; sampling is switched on and
off in short windows side by side, and the work done for each CPU second compared pair by pair, so that a machine whose speed
changes changes both. Ours, and `perf record` switched by its control file; then what the recorders themselves take of a core, with
their children: ours as the service records, over two captures that are stored and summed up, once the first one is (what it loads
once is said apart). In all, in percent of a core: the work's part of all cores and the recorder's own (aim at 49 Hz: 0.5). Root.
"""

from __future__ import annotations

import mmap
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

from zombiescope.kernel.perf_events import Sampler

RATE = int(sys.argv[2]) if len(sys.argv) > 2 else 99
SEGMENT = int(sys.argv[3]) if len(sys.argv) > 3 else 120
WINDOW_SECONDS = 0.1
WORK = """
import hashlib, mmap, os, struct, sys, time
kept = mmap.mmap(int(sys.argv[1]), 0)
place, done = 16 * int(sys.argv[2]), 0
while True:
    hashlib.sha256(bytes(64 << 10)).digest()
    sorted(range(600), key=lambda n: n * 7919 % 60013)
    for _ in range(30):
        os.stat("/proc/self/status")
    done += 1
    struct.pack_into("=QQ", kept, place, done, time.process_time_ns())
"""


class Done(NamedTuple):
    pieces: int
    nanoseconds: int
    """Of CPU time."""


class Workers:
    """One on each core, counting its pieces of work in memory that we see."""

    def __init__(self, memory: mmap.mmap, count: int) -> None:
        self._numbers, self._count = memoryview(memory).cast("Q"), count

    def done(self) -> list[Done]:
        return [Done(self._numbers[2 * place], self._numbers[2 * place + 1]) for place in range(self._count)]

    def pace(self) -> float:
        """Pieces for each CPU second in one window."""
        before = after = self.done()
        while sum(one.nanoseconds for one in after) - sum(one.nanoseconds for one in before) < 1e9 * WINDOW_SECONDS:
            time.sleep(WINDOW_SECONDS / 2)  # by what they got of the machine, which has others to serve, too
            after = self.done()
        pieces = sum(late.pieces - early.pieces for early, late in zip(before, after, strict=True))
        return (
            1e9 * pieces / sum(late.nanoseconds - early.nanoseconds for early, late in zip(before, after, strict=True))
        )


@contextmanager
def working() -> Iterator[Workers]:
    cores = len(os.sched_getaffinity(0))
    descriptor = os.memfd_create("work", 0)
    os.truncate(descriptor, mmap.PAGESIZE)
    command = [sys.executable, "-c", WORK, str(descriptor)]
    jobs = [subprocess.Popen([*command, str(place)], pass_fds=[descriptor]) for place in range(cores)]
    try:
        workers = Workers(mmap.mmap(descriptor, mmap.PAGESIZE), cores)
        while not all(one.pieces for one in workers.done()):
            time.sleep(0.05)
        yield workers
    finally:
        for job in jobs:
            job.kill()
            job.wait()
        os.close(descriptor)


Switch = Callable[[bool], None]


@contextmanager
def ours() -> Iterator[Switch]:
    sampler = Sampler(RATE)

    def turn(on: bool) -> None:
        if on:
            sampler.open(sorted(os.sched_getaffinity(0)))
        else:
            sampler.drain()
            sampler.close()

    yield turn


@contextmanager
def perfs() -> Iterator[Switch]:
    with tempfile.TemporaryDirectory(prefix="zombiescope-bench-") as folder:
        control, answer = Path(folder, "control"), Path(folder, "answer")
        os.mkfifo(control)
        os.mkfifo(answer)
        options = ["-q", "-a", "-g", "-e", "cpu-clock", "-k", "CLOCK_MONOTONIC", "-F", str(RATE), "-D", "-1"]
        fifos = f"--control=fifo:{control},{answer}"
        process = subprocess.Popen(["perf", "record", *options, fifos, "-o", f"{folder}/perf.data"])
        with control.open("w") as words, answer.open() as answers:

            def turn(on: bool) -> None:
                words.write("enable\n" if on else "disable\n")
                words.flush()
                assert answers.readline().strip("\0\n") == "ack"

            yield turn
        process.send_signal(signal.SIGINT)
        process.wait()


def compare(workers: Workers, turn: Switch, pairs: int) -> list[float]:
    """How much more CPU time the same work took with sampling, pair by pair; which comes first alternates."""
    found = []
    for number in range(pairs):
        pace = {}
        for on in (True, False) if number % 2 else (False, True):
            if on:
                turn(True)
            pace[on] = workers.pace()
            if on:
                turn(False)
        found.append(pace[False] / pace[True] - 1)
    return found


class Itself(NamedTuple):
    begun: float
    """CPU seconds until the first capture was stored, or sampling had begun."""
    share: float
    """Of a core, from then on."""


def itself(command: list[str], seconds: float, stored: Callable[[], int] | None) -> Itself:
    """Over whole segments, from the moment that one is stored, where it stores some."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(5)
    while stored is not None and not stored():
        time.sleep(0.1)
    before, begin, had = spent_by(process.pid), time.monotonic(), stored() if stored else 0
    time.sleep(seconds)
    while stored is not None and stored() < had + round(seconds / SEGMENT):
        time.sleep(0.1)
    share = (spent_by(process.pid) - before) / (time.monotonic() - begin)
    process.send_signal(signal.SIGINT)
    process.wait()
    return Itself(before, share)


def spent_by(pid: int) -> float:
    """Of all its threads, to the nanosecond where the kernel tells, and of its children, those that have ended among them."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    mine = sum(int((thread / "schedstat").read_text().split()[0]) for thread in threads) / 1e9
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    ended = (int(stat[13]) + int(stat[14])) / os.sysconf("SC_CLK_TCK")
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return mine + ended + sum(spent_by(int(child)) for child in children)


def main() -> None:
    pairs = int(sys.argv[1]) if len(sys.argv) > 1 else 400
    with working() as workers, tempfile.TemporaryDirectory(prefix="zombiescope-bench-") as folder:
        own = [sys.executable, "-m", "zombiescope", "profile", "record", "--service", "--captures", folder]
        own += ["--rate", str(RATE), "--segment", str(SEGMENT)]
        show("ours", pairs, workers, ours, Recorder(own, 2 * SEGMENT, lambda: len(list(Path(folder).glob("*.zscap")))))
        if shutil.which("perf"):
            peer = ["perf", "record", "-q", "-a", "-g", "-e", "cpu-clock", "-F", str(RATE), "-o", f"{folder}/perf.data"]
            show("perf", pairs, workers, perfs, Recorder(peer, 10, None))


class Recorder(NamedTuple):
    command: list[str]
    seconds: float
    stored: Callable[[], int] | None
    """How many captures there are; None: it stores none."""


def show(
    name: str, pairs: int, workers: Workers, switched: Callable[[], AbstractContextManager[Switch]], recorder: Recorder
) -> None:
    with switched() as turn:
        found = compare(workers, turn, pairs)
    low, middle, high = statistics.quantiles(found, n=4)
    error = 1.2533 * statistics.stdev(found) / len(found) ** 0.5
    begun, own = itself(*recorder)
    print(
        f"{name} at {RATE} Hz: the work takes {100 * middle:+.2f} % more CPU time (median of {pairs} pairs, give or take "
        f"{100 * error:.2f}; half of them {100 * low:+.1f} to {100 * high:+.1f}); the recorder itself {100 * own:.2f} % of a core, "
        f"after {begun:.2f} CPU s until it had begun",
        flush=True,
    )
    cores = len(os.sched_getaffinity(0))
    print(
        f"{name} at {RATE} Hz, in all: {100 * (cores * middle + own):.2f} % of a core, give or take {100 * cores * error:.2f}, "
        f"on {cores} busy cores (aim at 49 Hz: 0.5)",
        flush=True,
    )


if __name__ == "__main__":
    main()
