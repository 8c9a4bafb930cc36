# SPDX-License-Identifier: Apache-2.0
"""Is a scan flat in zombies? CPU seconds of `scan` as a whole process at 100 and at 20,000 zombies, in one run. Needs root.

Target: at 20,000 at most 1.3 times that at 100.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab import runs

ROUNDS = 7
FEW, MANY = 100, 20_000
TARGET = 1.3
SCAN = [sys.executable, "-m", "zombiescope", "scan", "--json"]


@contextmanager
def zombies(count: int) -> Iterator[None]:
    run = runs.begin(None)
    with runs.guarded(run):
        runs.make_zombies(run, "tmpfs", count, lambda _: None)
    run.end()
    try:
        yield
    finally:
        (cleaned_run,), _ = runs.clean(run.name)
        left = cleaned_run.left
        assert not left, left


def scan_cpu_seconds(arguments: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*SCAN, *arguments], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)


def measure(count: int) -> dict[str, float]:
    with zombies(count):
        return {
            title: statistics.median(scan_cpu_seconds(arguments) for _ in range(ROUNDS))
            for title, arguments in (("scan", []), ("scan --no-bytes", ["--no-bytes"]))
        }


def main() -> int:
    few, many = measure(FEW), measure(MANY)
    for title, seconds in few.items():
        ratio = many[title] / seconds
        figures = f"{FEW:,} zombies {seconds * 1000:6.1f} ms   {MANY:,} zombies {many[title] * 1000:6.1f} ms"
        print(f"{title:<16} {figures}   ratio {ratio:.2f}   target {TARGET}")
    return 0 if all(many[title] / few[title] <= TARGET for title in few) else 1


if __name__ == "__main__":
    sys.exit(main())
