# SPDX-License-Identifier: Apache-2.0
"""Any command in any cell: `python -m tests.vm.run --cell 6.1-v2 -- python3 -m zombiescope scan`.

The command runs as root in a copy of this checkout. Its output is printed; the exit status is its own
(124: did not finish, 125: the kernel never reached it). What it leaves in /out is in build/vm/run/CELL afterwards.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from tests.vm.archive import BuildError
from tests.vm.build import Store, say
from tests.vm.cells import CELLS, cell_named
from tests.vm.job import stage
from tests.vm.machine import run_job
from tests.vm.recipe import REPOSITORY

_MEGABYTES_A_CPU = 16
"""Beside what two have: the kernel's own memory for each."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.vm.run", description="Runs a command in a test machine.")
    parser.add_argument("--cell", required=True, choices=[cell.name for cell in CELLS])
    parser.add_argument("--timeout", type=float, default=300, metavar="SECONDS")
    parser.add_argument("--cpus", type=int, default=2, help="so many CPUs, all emulated by one thread: 96 boot slowly")
    parser.add_argument("--out", type=Path, help="folder for what comes back (build/vm/run/CELL)")
    parser.add_argument("command", nargs="+")
    asked = parser.parse_args()
    named = cell_named(asked.cell)
    cell = replace(
        named, cpus=asked.cpus, memory_megabytes=named.memory_megabytes + _MEGABYTES_A_CPU * (asked.cpus - 2)
    )
    store = Store()
    try:
        store.ensure([cell.image], [cell.kernel_part])
    except BuildError as error:
        say(f"error: {error}")
        return 3
    with tempfile.TemporaryDirectory(prefix="zombiescope-vm-") as folder:
        job = stage(Path(folder) / "job", cell, asked.command)
        outcome = run_job(store, cell, job, asked.out or REPOSITORY / "build/vm/run" / cell.name, asked.timeout)
    sys.stdout.write(outcome.log())
    how = f"{outcome.reason}, {outcome.cost()}, results in {outcome.folder}"
    say(f"{cell.name}: status {outcome.status}, {how}")
    return outcome.status


if __name__ == "__main__":
    sys.exit(main())
