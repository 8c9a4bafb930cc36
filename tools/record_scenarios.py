# SPDX-License-Identifier: Apache-2.0
"""Remakes tests/scenarios/recorded/NAME.tar.gz from real runs in a test machine: `tools/record_scenarios.py [NAME...]`.

All of them where none is named. One boot makes one scenario after the other (`tests/scenarios/runs.py`) and records each.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.scenarios.runs import HANDED_ON, SCENARIOS  # noqa: E402
from tests.vm.build import Store, say  # noqa: E402
from tests.vm.cells import cell_named  # noqa: E402
from tests.vm.job import stage  # noqa: E402
from tests.vm.machine import run_job  # noqa: E402

RECORDED = ROOT / "tests/scenarios/recorded"
TIMEOUT_SECONDS = 1_800


def record(cell_name: str, names: list[str]) -> int:
    cell, store = cell_named(cell_name), Store()
    store.ensure([cell.image], [cell.kernel])
    with tempfile.TemporaryDirectory(prefix="zombiescope-scenarios-") as folder:
        job = stage(Path(folder) / "job", cell, ["python3", "-m", "tests.scenarios.runs", *names])
        outcome = run_job(store, cell, job, Path(folder) / "out", TIMEOUT_SECONDS)
        say(f"{cell.name}: status {outcome.status} in {outcome.wall_seconds:.0f} s, {outcome.reason}")
        say(outcome.log()[-2000:])
        RECORDED.mkdir(exist_ok=True)
        for archive in sorted(outcome.folder.glob("*.tar.gz")):
            shutil.copyfile(archive, RECORDED / archive.name)
    return outcome.status


def main() -> int:
    names = sys.argv[1:] or list(SCENARIOS)
    by_cell = {
        "6.1-v2": [name for name in names if name not in HANDED_ON],
        "7.2-v2": [name for name in names if name in HANDED_ON],
    }
    return max(record(cell, wanted) for cell, wanted in by_cell.items() if wanted)


if __name__ == "__main__":
    sys.exit(main())
