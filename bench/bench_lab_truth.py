# SPDX-License-Identifier: Apache-2.0
"""What the lab made against what `scan --exact` says: zombies and bytes of every kind, at each size. Needs root.

bench/bench_lab_truth.py [SIZE ...]        default: 1 7 50 333 2000
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.kernel.lab_driver import LabDriver
from tests.kernel.truth_table import Row, kinds_of_this_host, make_and_scan

from zombiescope.lab.hierarchy import find_hierarchy

SIZES = (1, 7, 50, 333, 2000)


def show(count: int, row: Row) -> None:
    nature = next((nature for nature, held in row.bytes.items() if held), "-")
    made, seen = row.bytes.get(nature, 0), row.seen_bytes.get(nature, 0)
    verdict = "agrees" if row.agrees else f"DIFFERS {row.seen_bytes}"
    print(
        f"{count:>6,} {row.kind:<12} {row.zombies:>8,} {row.seen_zombies or 0:>8,}  {nature:<6} {made:>11,} {seen:>11,}  {verdict}"
    )


def main(arguments: list[str]) -> int:
    if os.geteuid() != 0:
        print("needs root")
        return 0
    wrong = 0
    print(f"{'size':>6} {'kind':<12} {'made':>8} {'scan':>8}  {'bytes':<6} {'made':>11} {'scan':>11}")
    for count in [int(argument) for argument in arguments] or SIZES:
        lab, start = LabDriver(find_hierarchy()), time.monotonic()
        try:
            table = make_and_scan(lab, kinds_of_this_host(), count)
        finally:
            lab.clean_all()
        for row in table.rows:
            show(count, row)
        wrong += len(table.disagreeing)
        taken = time.monotonic() - start
        print(
            f"       total of the host {table.total:,}, sum of its rows {table.by_parent:,}; {table.scans} scans, {taken:.0f} s"
        )
    print(f"ratio of rows that agree: {'1.00' if not wrong else 'BROKEN, ' + str(wrong) + ' differ'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
