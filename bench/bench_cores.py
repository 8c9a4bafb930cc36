# SPDX-License-Identifier: Apache-2.0
"""The cores: precision and recall over the labelled runs (`tests/cores/runs`), what the always-on part and the sampler cost.

Targets: beginning and length to 0.2 s at ten looks a second and to 1 s at one; always-on part at most 0.1 % of a core, also with
192 simulated CPUs (the kernel's own work for their counters is that of this host); sampler at most 0.2 % of a core at 99 Hz. CPU
seconds, not wall. The sampler needs root.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from typing import Any

from tests.cores import scoring

from zombiescope.host.live import LiveHost
from zombiescope.probes.readers.kernel_stacks import KernelStacks, open_kernel_stacks
from zombiescope.watching.cores import CoresTeller

READINGS = 300
SAMPLER_SECONDS = 5.0


class Simulated(LiveHost):
    """This host, but for a /proc/stat of many cores that all work a little and now and then in the kernel alone."""

    def __init__(self, cores: int) -> None:
        super().__init__()
        tail = b"intr 1" + b" 0" * 4000 + b"\nctxt 1\n"
        self.texts = [
            b"".join(b"cpu%d %d 3 %d %d 17 0 %d 5 0 0\n" % (c, 50 * t, 20 * t, 900 * t, t) for c in range(cores)) + tail
            for t in range(1000, 1000 + READINGS)
        ]
        self.seconds = 0

    def read(self, path: bytes, limit: int = 1 << 24) -> bytes:
        if path != b"/proc/stat":
            return super().read(path, limit)
        super().read(path, limit)
        self.seconds += 1
        return self.texts[self.seconds % READINGS]

    def wall_clock(self) -> float:
        return 1.7e9 + self.seconds

    def monotonic(self) -> float:
        return float(self.seconds)


def main() -> None:
    labelled()
    print()
    for name, host in (("this host", LiveHost()), ("192 simulated CPUs", Simulated(192))):
        probe = CoresTeller(host)
        share = 100 * cpu_seconds(probe.read, READINGS)
        print(
            f"always on, {name:<19} {share:.4f} % of a core at one look a second   target 0.1   ratio {share / 0.1:.2f}"
        )
        print(f"  series: {len(probe.read().samples)} (no label is by CPU)")
    print()
    sampler()


def labelled() -> None:
    runs = scoring.labels()
    ways: dict[str, Callable[[Any], Any]] = {
        "10 looks a second": scoring.by_command,
        "1 look a second": scoring.by_agent,
    }
    for way, seen in ways.items():
        for half in scoring.HALVES:
            mine = [each for each in runs if each.half == half]
            got = scoring.score([(each, seen(each)) for each in mine])
            print(
                f"{way:<18} {half:<7} {len(mine)} runs: precision {_percent(got.precision)}, recall {_percent(got.recall)} "
                f"({got.found} found, {got.missed} missed, {got.false} false); worst beginning {got.begin_error:.3f} s, "
                f"length {got.seconds_error:.3f} s"
            )


def _percent(value: float | None) -> str:
    return "none" if value is None else f"{value:.0%}"


def cpu_seconds(work: Callable[[], object], times: int) -> float:
    begun = time.process_time()
    for _ in range(times):
        work()
    return (time.process_time() - begun) / times


def sampler() -> None:
    cores = sorted(os.sched_getaffinity(0))
    begun = time.process_time()
    stacks = open_kernel_stacks(LiveHost(), cores)
    if not isinstance(stacks, KernelStacks):
        print(f"sampler: not measured: {stacks.reason}")
        return
    end = time.monotonic() + SAMPLER_SECONDS
    while time.monotonic() < end:
        time.sleep(0.5)
        stacks.drain()
    ours = time.process_time() - begun
    stacks.close()
    share = 100 * ours / SAMPLER_SECONDS
    took = f"{stacks.taken} samples, {share:.3f} % of a core"
    print(f"sampler, 99 Hz, {len(cores)} cores      {took}   target 0.2   ratio {share / 0.2:.2f}")
    if shutil.which("perf"):
        other = perf_cpu()
        print(
            f"perf record -a -g -F 99     {100 * other / SAMPLER_SECONDS:.3f} % of a core   ours/perf {ours / other:.3f}"
        )


def perf_cpu() -> float:
    before = os.times()
    with tempfile.TemporaryDirectory() as folder:
        command = ["perf", "record", "-q", "-a", "-g", "-F", "99", "-e", "cpu-clock", "-o", f"{folder}/perf.data"]
        subprocess.run(
            [*command, "sleep", str(SAMPLER_SECONDS)],
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


if __name__ == "__main__":
    main()
