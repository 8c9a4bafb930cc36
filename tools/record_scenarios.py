# SPDX-License-Identifier: Apache-2.0
"""Remakes the recordings of real runs in a test machine: `tools/record_scenarios.py [NAME...]`.

All of them where none is named. One boot makes one scenario after the other and records each: those of
`tests/scenarios/runs.py` into `recorded`, those of `tests/scenarios/held_out_runs.py` into `held_out`.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.scenarios import held_out_runs, runs  # noqa: E402
from tests.vm.build import Store, say  # noqa: E402
from tests.vm.cells import cell_named  # noqa: E402
from tests.vm.job import stage  # noqa: E402
from tests.vm.machine import run_job  # noqa: E402

FOLDERS = {runs: ROOT / "tests/scenarios/recorded", held_out_runs: ROOT / "tests/scenarios/held_out"}
TIMEOUT_SECONDS = 1_800


def record(cell_name: str, module: ModuleType, names: list[str]) -> int:
    cell, store = cell_named(cell_name), Store()
    store.ensure([cell.image], [cell.kernel_part])
    with tempfile.TemporaryDirectory(prefix="zombiescope-scenarios-") as folder:
        job = stage(Path(folder) / "job", cell, ["python3", "-m", module.__name__, *names])
        outcome = run_job(store, cell, job, Path(folder) / "out", TIMEOUT_SECONDS)
        say(f"{cell.name}: status {outcome.status} in {outcome.wall_seconds:.0f} s, {outcome.reason}")
        say(outcome.log()[-2000:])
        FOLDERS[module].mkdir(exist_ok=True)
        for archive in sorted(outcome.folder.glob("*.tar.gz")):
            shutil.copyfile(archive, FOLDERS[module] / archive.name)
    return outcome.status


def main() -> int:
    asked = set(sys.argv[1:])
    status = 0
    for module in FOLDERS:
        wanted = [name for name in module.SCENARIOS if not asked or name in asked]
        by_cell = {
            "6.1-v2": [name for name in wanted if name not in runs.HANDED_ON],
            "7.2-v2": [name for name in wanted if name in runs.HANDED_ON],
        }
        status = max([status, *(record(cell, module, names) for cell, names in by_cell.items() if names)])
    return status


if __name__ == "__main__":
    sys.exit(main())
