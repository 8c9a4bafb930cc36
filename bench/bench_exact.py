# SPDX-License-Identifier: Apache-2.0
"""The exact walk on real zombies with a file each: CPU of the whole command, time in the kernel by the kernel's own count,
the longest run, how it grows from 5,000 to 20,000, and the pages tier on the same zombies. Needs root; makes and removes them.
"""

from __future__ import annotations

import ctypes
import os
import re
import resource
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
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


@dataclass
class KernelTime:
    """Every run of the walker, by `run_time_ns` of its program."""

    runs: list[float] = field(default_factory=list)

    def watch(self, walker: bpf_walk.Walker, program: str) -> float:
        descriptor = walker.object.program_descriptor(program)
        text = Path(f"/proc/self/fdinfo/{descriptor}").read_text()
        match = re.search(r"run_time_ns:\s*(\d+)", text)
        return int(match[1]) / 1e9 if match else float("nan")


def kernel_times() -> list[float]:
    """One whole walk with the kernel's statistics on."""
    seen = KernelTime()
    run = bpf_walk.Walker.run

    def timed(self: bpf_walk.Walker, program: str, *arguments: Any) -> Any:
        before = seen.watch(self, program)
        answer = run(self, program, *arguments)
        seen.runs.append(seen.watch(self, program) - before)
        return answer

    statistics = call(Command.ENABLE_STATS, bytearray(4))
    bpf_walk.Walker.run = timed  # type: ignore[method-assign]
    try:
        bpf_walk.walk_memcgs(1, time.time)
    finally:
        bpf_walk.Walker.run = run  # type: ignore[method-assign]
        os.close(statistics)
    return seen.runs


def command_seconds(*arguments: str) -> float:
    """CPU of one command with everything it starts, interpreter and imports included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "zombiescope", *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def best(measure: Any) -> Any:
    return min(measure() for _ in range(_REPEATS))


def report(count: int) -> dict[str, float]:
    runs = min((kernel_times() for _ in range(_REPEATS)), key=sum)
    figures = {
        "walk_kernel_seconds": sum(runs),
        "longest_run_seconds": max(runs),
        "chunks": float(len(runs)),
        "walk_cpu_seconds": best(lambda: command_seconds("--version") and walk_command()),
        "autopsy_cpu_seconds": best(lambda: command_seconds("autopsy", "--json")),
    }
    print(f"{count:>6,} zombies with a file each")
    for name, value in figures.items():
        print(f"        {name:<22} {value:10.4f}")
    return figures


def walk_command() -> float:
    """Interpreter, imports, load, walk and records, without the command line around them."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    code = "from zombiescope.host.live import LiveHost; from zombiescope.probes.readers.zombie_walk import read_zombie_walk as r; r(LiveHost())"
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def pages_tier_seconds() -> float | None:
    """The same question to the page files, when that tier is there."""
    with suppress(ImportError):
        from zombiescope.probes.readers import page_owners  # type: ignore[attr-defined]  # noqa: F401, PLC0415

        return float(best(lambda: command_seconds("autopsy", "--json", "--tier", "pages")))
    return None


def main() -> int:
    if os.geteuid() != 0:
        print("needs root")
        return 0
    ctypes.CDLL(None).prctl(15, b"bench_exact", 0, 0, 0)
    with Maker(f"bench-exact-{os.getpid()}") as maker:
        maker.many(5_000)
        small = report(5_000)
        maker.many(15_000, 5_000)
        large = report(20_000)
    growth = large["walk_kernel_seconds"] / small["walk_kernel_seconds"]
    print(f"growth of the kernel's time from 5,000 to 20,000: {growth:.2f} (4.00 is linear)")
    within = {
        f"whole command <= {CPU_BUDGET_SECONDS} s of CPU": large["autopsy_cpu_seconds"] <= CPU_BUDGET_SECONDS,
        f"all runs <= {KERNEL_BUDGET_SECONDS} s": large["walk_kernel_seconds"] <= KERNEL_BUDGET_SECONDS,
        f"no run > {RUN_BUDGET_SECONDS} s": large["longest_run_seconds"] <= RUN_BUDGET_SECONDS,
    }
    for budget, kept in within.items():
        print(f"{'kept  ' if kept else 'BROKEN'} {budget}")
    return 0 if all(within.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
