# SPDX-License-Identifier: Apache-2.0
"""The one file against the venv and the pyz, interleaved, in one run: `--version` on the clock, `scan --json` in CPU, size, memory.

`make onefile ARCH=$(uname -m) && make pyz`, then `python bench/bench_onefile.py [RUNS]`. Minima: what else runs only adds.
Memory is told twice: peak resident memory counts mapped pages of the file, which are shared and can be dropped; the anonymous
part is what a host really gives.
"""

from __future__ import annotations

import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

TOP = Path(__file__).resolve().parents[1]
FILE = TOP / "dist" / f"zombiescope-{platform.machine()}"
PYZ = TOP / "dist" / "zombiescope.pyz"
VERSION, SCAN = ("--version",), ("scan", "--json")
MOST_VERSION_SECONDS = 0.060


class Cost(NamedTuple):
    wall: float
    cpu: float
    peak_bytes: int


def once(command: list[str]) -> Cost:
    """In a child of its own: its resource usage is that of this command alone."""
    report, result = os.pipe()
    child = os.fork()
    if child == 0:
        began = time.perf_counter()
        done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        wall = time.perf_counter() - began
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        os.write(result, f"{wall} {used.ru_utime + used.ru_stime} {used.ru_maxrss << 10} {done.returncode}".encode())
        os._exit(0)
    os.close(result)
    with os.fdopen(report) as file:
        told = file.read().split()
    os.waitpid(child, 0)
    if told[3] != "0":
        sys.exit(f"{' '.join(command)} ended with {told[3]}")
    return Cost(float(told[0]), float(told[1]), int(told[2]))


def anonymous_bytes(command: list[str]) -> int:
    """Of a process that only waits: the smallest of our long-lived ones, `top` without a terminal."""
    process = subprocess.Popen([*command, "top", "--plain", "--count", "9"], stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        process.stdout.readline()
        for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) << 10
        return 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    if not FILE.exists():
        print(f"SKIPPED: {FILE} is not built; make onefile ARCH={platform.machine()}")
        return
    builds = {"one file": [str(FILE)], "venv": [str(Path(sys.executable).with_name("zombiescope"))]}
    if PYZ.exists():
        builds["pyz"] = [sys.executable, str(PYZ)]
    costs: dict[tuple[str, tuple[str, ...]], list[Cost]] = {}
    for _ in range(runs):
        for name, command in builds.items():
            for words in (VERSION, SCAN):
                costs.setdefault((name, words), []).append(once([*command, *words]))
    size = {"one file": FILE.stat().st_size, "pyz": PYZ.stat().st_size if PYZ.exists() else 0}
    print(f"{runs} runs each, interleaved; minima. size of the one file: {size['one file'] / 1e6:.1f} MB")
    print(
        f"{'':10} {'--version':>10} {'scan CPU':>10} {'scan wall':>10} {'scan peak':>10} {'anonymous':>10} {'size':>9}"
    )
    best: dict[str, tuple[float, float]] = {}
    for name, command in builds.items():
        version = min(cost.wall for cost in costs[name, VERSION])
        cpu = min(cost.cpu for cost in costs[name, SCAN])
        wall = min(cost.wall for cost in costs[name, SCAN])
        peak = min(cost.peak_bytes for cost in costs[name, SCAN])
        best[name] = (version, cpu)
        shown = f"{size[name] / 1e6:.1f} MB" if size.get(name) else ""
        figures = f"{version * 1e3:7.0f} ms {cpu * 1e3:7.0f} ms {wall * 1e3:7.0f} ms {peak / 2**20:6.1f} MiB"
        print(f"{name:10} {figures:>43} {anonymous_bytes(command) / 2**20:6.1f} MiB {shown:>9}")
    ours, theirs = best["one file"], best["venv"]
    print(f"ratio one file / venv: --version {ours[0] / theirs[0]:.2f}, scan CPU {ours[1] / theirs[1]:.2f}")
    print(f"target: --version at most 60 ms: {'met' if ours[0] <= MOST_VERSION_SECONDS else 'MISSED'}")
    print(f"target: scan CPU no more than the venv's: {'met' if ours[1] <= theirs[1] else 'MISSED'}")


if __name__ == "__main__":
    main()
