# SPDX-License-Identifier: Apache-2.0
"""The exact walk on real zombies with a file each: CPU of the whole command, time in the kernel by the kernel's own count,
the longest run, and how it grows from 5,000 to 20,000. Needs root; makes the zombies and removes them.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.kernel.zombie_maker import Maker

from zombiescope.kernel import bpf_walk
from zombiescope.kernel.bpf_syscall import Command, call

CPU_BUDGET_SECONDS = 0.5
KERNEL_BUDGET_SECONDS = 0.2
RUN_BUDGET_SECONDS = 0.01
_REPEATS = 5
_WALK = """
from zombiescope.host.live import LiveHost
from zombiescope.probes.readers.zombie_walk import read_zombie_walk
read_zombie_walk(LiveHost())
"""


def kernel_times() -> list[float]:
    """Every run of one whole walk, by the kernel's own `run_time_ns` of the program."""
    seen: list[float] = []

    class Timed(bpf_walk.Walker):
        def run(self, program: str, *arguments: Any) -> Any:
            before = run_seconds(self, program)
            answer = super().run(program, *arguments)
            seen.append(run_seconds(self, program) - before)
            return answer

    statistics = call(Command.ENABLE_STATS, bytearray(4))
    try:
        bpf_walk.walk_memcgs(1, time.time, walker_type=Timed)
    finally:
        os.close(statistics)
    return seen


def run_seconds(walker: bpf_walk.Walker, program: str) -> float:
    text = Path(f"/proc/self/fdinfo/{walker.object.program_descriptor(program)}").read_text()
    match = re.search(r"run_time_ns:\s*(\d+)", text)
    return int(match[1]) / 1e9 if match else float("nan")


def command_seconds(*arguments: str) -> float:
    """CPU of one command with everything it starts, interpreter and imports included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "zombiescope", *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def best(measure: Any) -> Any:
    return min(measure() for _ in range(_REPEATS))


def walk_seconds() -> float:
    """Interpreter, imports, load, walk and records, without the command line around them."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", _WALK], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def report(count: int) -> dict[str, float]:
    runs = min((kernel_times() for _ in range(_REPEATS)), key=sum)
    figures = {
        "kernel, all runs": sum(runs),
        "kernel, longest run": max(runs),
        "cpu, walk": min(walk_seconds() for _ in range(_REPEATS)),
        "cpu, autopsy --json": min(command_seconds("autopsy", "--json") for _ in range(_REPEATS)),
    }
    print(f"{count:>6,} zombies with a file each, {len(runs)} runs")
    for name, value in figures.items():
        print(f"        {name:<22} {value * 1000:8.1f} ms")
    return figures


def main() -> int:
    if os.geteuid() != 0:
        print("needs root")
        return 0
    with Maker(f"bench-exact-{os.getpid()}") as maker:
        maker.many(5_000)
        small = report(5_000)
        maker.many(15_000, 5_000)
        large = report(20_000)
    growth = large["kernel, all runs"] / small["kernel, all runs"]
    print(f"growth of the kernel's time from 5,000 to 20,000: {growth:.2f} (4.00 is linear)")
    within = {
        f"whole command <= {CPU_BUDGET_SECONDS} s of CPU": large["cpu, autopsy --json"] <= CPU_BUDGET_SECONDS,
        f"all runs <= {KERNEL_BUDGET_SECONDS} s": large["kernel, all runs"] <= KERNEL_BUDGET_SECONDS,
        f"no run > {RUN_BUDGET_SECONDS} s": large["kernel, longest run"] <= RUN_BUDGET_SECONDS,
    }
    for budget, kept in within.items():
        print(f"{'kept  ' if kept else 'BROKEN'} {budget}")
    return 0 if all(within.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
