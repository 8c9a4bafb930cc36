# SPDX-License-Identifier: Apache-2.0
"""Remakes tests/machines/CELL from the cells of the kernel matrix: `tools/record_machines.py [CELL...]`, all without names.

Each is booted, given zombies of several kinds and recorded; MACHINE.toml keeps the truth the kernel told beside the product.
The interfaces it has are kept for `tools/write_kernels_page.py`.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.vm.build import Store, say  # noqa: E402
from tests.vm.cells import CELLS, Cell, cell_named  # noqa: E402
from tests.vm.job import stage  # noqa: E402
from tests.vm.machine import run_job  # noqa: E402
from tools.write_kernels_page import RESULTS, made_of  # noqa: E402

MACHINES = ROOT / "tests/machines"
IN_GUEST = [
    "sh",
    "-c",
    "uname -r >/out/release; python3 -m tests.vm.stories.interfaces && python3 -m tests.vm.stories.recording",
]


def record(store: Store, cell: Cell) -> bool:
    with tempfile.TemporaryDirectory(prefix="zombiescope-record-") as folder:
        job = stage(Path(folder) / "job", cell, IN_GUEST)
        outcome = run_job(store, cell, job, Path(folder) / "out", 500)
        say(f"{cell.name}: status {outcome.status} in {outcome.wall_seconds:.0f} s, {outcome.reason}")
        if outcome.status:
            say(outcome.log()[-2000:])
            return False
        keep(cell, outcome.folder)
    return True


def keep(cell: Cell, out: Path) -> None:
    (RESULTS / cell.name).mkdir(parents=True, exist_ok=True)
    shutil.copy(out / "interfaces.json", RESULTS / cell.name)
    target = MACHINES / cell.name
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    with tarfile.open(out / "node.tar.gz") as archive:
        archive.extractall(target, filter="data")
    facts = {
        "kernel": (out / "release").read_text().strip(),
        "made_of": made_of(cell),
        "why": "a cell of the kernel matrix with zombies of several kinds",
        "how": f"tools/record_machines.py {cell.name}",
    }
    lines = [f'{name} = "{value}"' for name, value in facts.items()]
    lines += [
        "# What the kernel itself counted, read beside the product.",
        f"truth = '{(out / 'truth.json').read_text()}'",
    ]
    (target / "MACHINE.toml").write_text("\n".join(lines) + "\n")


def main() -> int:
    cells = [cell_named(name) for name in sys.argv[1:]] or list(CELLS)
    store = Store()
    store.ensure([cell.image for cell in cells], [cell.kernel_part for cell in cells])
    with ThreadPoolExecutor(2) as machines:
        done = list(machines.map(lambda cell: record(store, cell), cells))
    return subprocess.run(["du", "-sh", str(MACHINES)], check=False).returncode if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
