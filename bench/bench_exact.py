# SPDX-License-Identifier: Apache-2.0
"""The exact walk on real zombies with a file each: CPU of the whole command, time in the kernel by the kernel's own count,
the longest run, how it grows from 5,000 to 20,000, and the same command with bpf(2) refused, which is what the pages tier
costs on the same zombies. Needs root; makes the zombies and removes them.
"""

from __future__ import annotations

import errno
import json
import os
import re
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.kernel.confined import refuse_bpf
from tests.kernel.zombie_maker import Maker

from zombiescope.kernel import bpf_walk
from zombiescope.kernel.bpf_object import Command, call

CPU_BUDGET_SECONDS = 0.5
KERNEL_BUDGET_SECONDS = 0.2
RUN_BUDGET_SECONDS = 0.01
_REPEATS = 7
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
    text = Path(f"/proc/self/fdinfo/{walker.object.programs[program]}").read_text()
    match = re.search(r"run_time_ns:\s*(\d+)", text)
    return int(match[1]) / 1e9 if match else float("nan")


def command(*arguments: str, confined: Callable[[], None] | None = None) -> tuple[float, bytes]:
    """CPU of one command with everything it starts, interpreter and imports included; and what it said."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, *arguments], check=True, capture_output=True, preexec_fn=confined)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def best_command(*arguments: str) -> float:
    return min(command(*arguments)[0] for _ in range(_REPEATS))


def pages_tier() -> tuple[float, str, int]:
    """The whole command where bpf(2) is refused: CPU, the tier that answered, the files it named."""
    arguments = ("-m", "zombiescope", "autopsy", "--json", "--limit", "0")
    seconds, said = command(*arguments, confined=lambda: refuse_bpf(errno.EPERM))
    answer = json.loads(said)
    return seconds, answer["tier"], len(answer.get("pinned_files", answer["zombies"]))


def report(count: int) -> dict[str, float]:
    runs = min((kernel_times() for _ in range(_REPEATS)), key=sum)
    figures = {
        "kernel, all runs": sum(runs),
        "kernel, longest run": max(runs),
        "cpu, walk": best_command("-c", _WALK),
        "cpu, autopsy --json": best_command("-m", "zombiescope", "autopsy", "--json"),
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
        pages, tier, named = pages_tier()
    growth = large["kernel, all runs"] / small["kernel, all runs"]
    print(f"growth of the kernel's time from 5,000 to 20,000: {growth:.2f} (4.00 is linear)")
    ours = large["cpu, autopsy --json"]
    print(f"the same command with bpf(2) refused: tier {tier}, {named:,} named, {pages * 1000:.1f} ms")
    print(f"{tier} tier / exact tier: {pages / ours:.1f}")
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
