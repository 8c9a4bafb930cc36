# SPDX-License-Identifier: Apache-2.0
"""What `export slice` is worth: a neighbour under a limit on its slice, a churning unit's zombies below that slice or apart. Root.

Printed: the neighbour's speed and its work for the same CPU time (against a yardstick taken between its reads), without zombies,
with them in its own slice, and with the same number in a slice of theirs. Usage: bench_slice.py [COUNT]: 3,000 without one.
"""

from __future__ import annotations

import os
import sys
from dataclasses import replace

from zombiescope.lab import runs
from zombiescope.lab.places import disk_folder, make_run_folder
from zombiescope.lab.scenes import Neighbour, Pace

SECONDS = 4.0
SHARED, OWN = "system.slice", "churn.slice"


def best(neighbour: Neighbour) -> Pace:
    return max((neighbour.measure(SECONDS) for _ in range(3)), key=lambda pace: pace.work)


def measure(where: str, count: int) -> tuple[Pace, Pace]:
    """Before and beside the zombies, which lie below the slice `where`; the neighbour is in the shared one."""
    run = runs.begin(None)
    try:
        with runs.guarded(run):
            folder = disk_folder(run.name)
            run.journal.intend("folder", path=folder)
            make_run_folder(folder)
            shared = f"{run.subtree}/{SHARED}"
            run.hierarchy.make_parents(shared)
            neighbour = Neighbour(run.hierarchy, shared, f"{folder}/neighbour", max(os.sched_getaffinity(0)))
            neighbour.prepare()
            before = best(neighbour)
            runs.make_zombies(replace(run, below=f"{run.subtree}/{where}"), "tmpfs", count, lambda _: None)
            return before, best(neighbour)
    finally:
        run.end()
        runs.clean(run.name)


def show(title: str, pace: Pace, before: Pace) -> None:
    print(
        f"{title:38}{pace.megabytes_per_second:9,.0f} MB/s{pace.megabytes_per_cpu_second:9,.0f} MB a CPU second"
        f"{100 * pace.work / before.work:7.0f} % of its work without zombies"
    )


def main() -> None:
    count = int(sys.argv[1].replace(",", "")) if len(sys.argv) > 1 else 3000
    alone, inside = measure(SHARED, count)
    alone_too, apart = measure(OWN, count)
    show("no zombies", alone, alone)
    show(f"{count:,} zombies below the same slice", inside, alone)
    show(f"{count:,} zombies in a slice of their own", apart, alone_too)
    gain = (apart.work / alone_too.work) / (inside.work / alone.work)
    print(
        f"in a slice of their own the neighbour does {gain:.1f} times the work; load {os.getloadavg()[0]:.1f} at the end"
    )


if __name__ == "__main__":
    main()
