# SPDX-License-Identifier: Apache-2.0
"""Ten moments planted in a real ring: planted.py [SEED]. Root; three and a half minutes.

A recorder runs over real load in captures of six seconds. Into ten of them, drawn from all, one real process works for three
seconds at what no other does. Then each is asked for by its function, cause, process, cgroup, core or time. Found first: the first
answer names that capture, and a stretch of it that overlaps.
"""

from __future__ import annotations

import os
import random
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from bench.profile.live_moments import NEIGHBOUR

from zombiescope.pipeline.profile_events import cause_words
from zombiescope.profiler.files.ring import held
from zombiescope.profiler.finding import find_in_folder
from zombiescope.profiler.stacks.searching import Question

SEGMENT, CAPTURES, LENGTH, RATE = 6.0, 34, 3.0, 49
HEAD = """
import ctypes, mmap, os, socket, sys, time
ctypes.CDLL(None).prctl(15, sys.argv[1].encode(), 0, 0, 0)
over = time.monotonic() + float(sys.argv[2])
begin = time.clock_gettime(time.CLOCK_MONOTONIC)
"""
TAIL = "print(begin, time.clock_gettime(time.CLOCK_MONOTONIC))"
FORK = (
    "while time.monotonic() < over:\n    child = os.fork()\n    if not child: os._exit(0)\n    os.waitpid(child, 0)\n"
)
RANDOM = "while time.monotonic() < over: os.urandom(1 << 16)\n"
FAULT = (
    "while time.monotonic() < over:\n    room = mmap.mmap(-1, 8 << 20)\n"
    "    for at in range(0, 8 << 20, 4096): room[at] = 1\n    room.close()\n"
)
SPIN = "while time.monotonic() < over: sum(range(1000))\n"
PIPE = "a, b = os.pipe()\nwhile time.monotonic() < over:\n    os.write(b, bytes(4096)); os.read(a, 4096)\n"
UDP = (
    "a = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); a.bind(('127.0.0.1', 0))\n"
    "while time.monotonic() < over:\n    a.sendto(b'x' * 1400, a.getsockname()); a.recv(2000)\n"
)
LIST = "while time.monotonic() < over: os.listdir('/proc')\n"
CHURN = "while time.monotonic() < over:\n    os.mkdir(sys.argv[3] + '/x'); os.rmdir(sys.argv[3] + '/x')\n"
ENTER = "open(sys.argv[3] + '/cgroup.procs', 'w').write(str(os.getpid()))\n"
HOLD = (
    "os.sched_setaffinity(0, {0}); os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))\n"
    "zero, room = os.open('/dev/zero', 0), bytearray(8 << 20)\nwhile time.monotonic() < over: os.readv(zero, [room])\n"
)


class Plant(NamedTuple):
    what: str
    work: str
    question: Question


def plants(group: str) -> list[Plant]:
    return [
        Plant("forks", FORK, Question(function="*copy_process*", process="plant-forks")),
        Plant("random numbers", RANDOM, Question(function="*random*")),
        Plant("page faults", FAULT, Question(cause="page faults", process="plant-page*")),
        Plant("user code", SPIN, Question(process="plant-user*")),
        Plant("a pipe", PIPE, Question(function="*pipe_write", process="plant-a pipe")),
        Plant("packets on loopback", UDP, Question(cause="network")),
        Plant("listing /proc", LIST, Question(function="proc_pid_readdir")),
        Plant("cgroups made and removed", CHURN, Question(cause="cgroup life")),
        Plant("work in a cgroup", ENTER + SPIN, Question(cgroup=f"*{os.path.basename(group)}*")),
        Plant("a core held", HOLD, Question(core="0")),
    ]


@contextmanager
def cgroup() -> Iterator[str]:
    """One that perf can name, of our own."""
    tops = [
        line.split()[1] for line in Path("/proc/mounts").read_text().splitlines() if "perf_event" in line.split()[3]
    ]
    tops += [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines() if line.split()[2] == "cgroup2"]
    path = f"{tops[0]}/zombiescope-planted-{secrets.token_hex(4)}"
    os.mkdir(path)
    try:
        yield path
    finally:
        os.rmdir(path)


def main() -> None:
    dice = random.Random(int(sys.argv[1]) if len(sys.argv) > 1 else time.time_ns())
    with tempfile.TemporaryDirectory(prefix="zombiescope-bench-") as folder, cgroup() as group:
        chosen = plants(group)
        begun = record(folder, group, chosen, dice)
        report(os.fsencode(folder), chosen, begun)


def record(folder: str, group: str, chosen: list[Plant], dice: random.Random) -> list[tuple[float, float]]:
    """When each of them worked, on the steady clock."""
    words = [sys.executable, "-m", "zombiescope", "profile", "record", "--with", "own", "--rate", str(RATE)]
    words += ["--segment", str(SEGMENT), "--seconds", str(SEGMENT * CAPTURES), "--captures", folder]
    neighbours = [subprocess.Popen([sys.executable, "-c", NEIGHBOUR]) for _ in range(os.cpu_count() or 1)]
    recorder = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        while not list(Path(folder).glob("*.recording")):
            time.sleep(0.1)
        first = time.monotonic()
        begun: dict[int, tuple[float, float]] = {}
        places = sorted(dice.sample(range(2, CAPTURES - 2), len(chosen)))
        order = dice.sample(range(len(chosen)), len(chosen))
        for place, number in zip(places, order, strict=True):
            time.sleep(max(0.0, first + place * SEGMENT + dice.uniform(0.5, SEGMENT - LENGTH - 0.5) - time.monotonic()))
            plant = chosen[number]
            name = f"plant-{plant.what}"[:15]
            script = [sys.executable, "-c", HEAD + plant.work + TAIL, name, str(LENGTH), group]
            said = subprocess.run(script, check=True, capture_output=True, text=True).stdout.split()
            begun[number] = (float(said[0]), float(said[1]))
        recorder.wait()
    finally:
        for one in (*neighbours, recorder):
            one.kill()
            one.wait()
    return [begun[number] for number in range(len(chosen))]


def report(folder: bytes, chosen: list[Plant], begun: list[tuple[float, float]]) -> None:
    captures = {one.name: one for one in held(folder)}
    right = 0
    spent = 0.0
    for plant, (begin, end) in zip(chosen, begun, strict=True):
        before = time.process_time()
        hits = find_in_folder(folder, plant.question, cause_words()[0]).hits
        spent += time.process_time() - before
        is_right = False
        if hits:
            at = (captures[hits[0].name].span.first_ns or 0) / 1e9
            is_right = at + hits[0].at < end and at + hits[0].until > begin
        right += is_right
        asked = ", ".join(f"{kind} {glob}" for kind, glob in plant.question.asked())
        print(f"{'found first' if is_right else 'NOT first  '}  {plant.what} (asked for {asked})", flush=True)
    load = os.getloadavg()[0]
    print(
        f"{right} of {len(chosen)} found first among {len(captures)} real captures (at least 9), "
        f"{1000 * spent / len(chosen):.0f} ms of CPU per question, load {load:.1f}"
    )


if __name__ == "__main__":
    main()
