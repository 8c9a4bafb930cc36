# SPDX-License-Identifier: Apache-2.0
"""What recording costs: overhead.py [TURNS]. A fixed piece of work on every core, by turns without a recorder, with ours and with
`perf record` at the same rate; then the recorders themselves. CPU seconds, least of all turns: what else runs only ever adds. Root.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RATE = "99"
WORK = """
import hashlib, os
for turn in range(60):
    hashlib.sha256(bytes(2 << 20)).digest()
    sorted(range(60000), key=lambda n: n * 7919 % 60013)
    for _ in range(300):
        os.stat("/proc/self/status")
"""


def recorder(kind: str, folder: Path) -> list[str]:
    if kind == "ours":
        return [sys.executable, "-m", "zombiescope", "profile", "record", "--with", "own", "--captures", str(folder)]
    options = ["-q", "-a", "-g", "-e", "cpu-clock", "-k", "CLOCK_MONOTONIC", "--buildid-mmap", "-F", RATE]
    return ["perf", "record", *options, "-o", str(folder / "perf.data")]


def work() -> float:
    """CPU seconds of one piece of work on every core."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    jobs = [subprocess.Popen([sys.executable, "-c", WORK]) for _ in range(os.cpu_count() or 1)]
    for job in jobs:
        job.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def turn(kind: str) -> tuple[float, float]:
    """CPU seconds of the work, and of the recorder for each second of it."""
    if kind == "none":
        return work(), 0.0
    with tempfile.TemporaryDirectory(prefix="zombiescope-bench-") as folder:
        process = subprocess.Popen(recorder(kind, Path(folder)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(1.5)
        spent_before, begin = spent_by(process.pid), time.monotonic()
        seconds = work()
        each = (spent_by(process.pid) - spent_before) / (time.monotonic() - begin)
        process.send_signal(signal.SIGINT)
        process.wait()
    return seconds, each


def spent_by(pid: int) -> float:
    """Of all its threads, to the nanosecond where the kernel tells."""
    spent = 0
    for thread in Path(f"/proc/{pid}/task").iterdir():
        spent += int((thread / "schedstat").read_text().split()[0])
    return spent / 1e9


def main() -> None:
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 8
    kinds = ["none", "ours", *(["perf"] if shutil.which("perf") else [])]
    found: dict[str, list[tuple[float, float]]] = {kind: [] for kind in kinds}
    for _ in range(turns):
        for kind in kinds:
            found[kind].append(turn(kind))
    base = min(seconds for seconds, _ in found["none"])
    for kind in kinds:
        seconds = [one for one, _ in found[kind]]
        itself = sum(each for _, each in found[kind]) / turns
        print(f"{kind:<5} work {min(seconds):.3f} to {max(seconds):.3f} CPU s in {turns} turns", end="")
        more = f"   {100 * (min(seconds) / base - 1):+.2f} % (aim: about 1 %)   itself {100 * itself:.2f} % of a core"
        print("" if kind == "none" else more)


if __name__ == "__main__":
    main()
