# SPDX-License-Identifier: Apache-2.0
"""Every cell of the matrix: the kernel tier and the stories run inside it, two machines at a time.

ZOMBIESCOPE_VM_CELLS: `required` (default), `all`, or names with commas between. Results stay in build/vm/CELL.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from xml.etree import ElementTree as ET

import pytest
from tests.vm.build import Store, say
from tests.vm.cells import CELLS, Cell, cell_named
from tests.vm.job import stage
from tests.vm.machine import Outcome, run_job
from tests.vm.recipe import REPOSITORY

pytestmark = pytest.mark.vm

MACHINES_AT_A_TIME = 2
RESULTS = REPOSITORY / "build" / "vm"
IN_GUEST = ["python3", "-m", "pytest", "--junitxml=/out/junit.xml", "-rA", "--tb=short"]


def chosen_cells() -> list[Cell]:
    asked = os.environ.get("ZOMBIESCOPE_VM_CELLS", "required")
    if asked in {"all", "required"}:
        return [cell for cell in CELLS if cell.required or asked == "all"]
    return [cell_named(name) for name in asked.split(",")]


def tell_stories(store: Store, cell: Cell) -> Outcome:
    where = [name for name in ("tests/kernel", "tests/vm/stories") if (REPOSITORY / name).exists()]
    job = stage(RESULTS / "jobs" / cell.name, cell, [*IN_GUEST, *where])
    outcome = run_job(store, cell, job, RESULTS / cell.name, timeout_seconds=600)
    shutil.rmtree(job)
    say(f"{cell.name}: status {outcome.status} in {outcome.wall_seconds:.0f} s, {outcome.reason}")
    return outcome


@pytest.fixture(scope="session")
def outcomes() -> Iterator[dict[str, Future[Outcome]]]:
    if missing := [program for program in ("qemu-system-x86_64", "mke2fs", "apt-get") if not shutil.which(program)]:
        reason = f"not installed: {', '.join(missing)} (try: tools/install-packages)"
        (pytest.fail if "vm" in os.environ.get("ZOMBIESCOPE_REQUIRE", "") else pytest.skip)(reason)
    store = Store()
    store.ensure([cell.image for cell in chosen_cells()], [cell.kernel for cell in chosen_cells()])
    with ThreadPoolExecutor(MACHINES_AT_A_TIME) as machines:
        yield {cell.name: machines.submit(tell_stories, store, cell) for cell in chosen_cells()}


@pytest.mark.parametrize("cell", chosen_cells(), ids=lambda cell: cell.name)
def test_cell(cell: Cell, outcomes: dict[str, Future[Outcome]]) -> None:
    outcome = outcomes[cell.name].result()
    assert outcome.status == 0, f"{cell.name}: {outcome.reason}\n{outcome.log()[-12_000:]}"
    suite = ET.parse(outcome.folder / "junit.xml").getroot().find("testsuite")
    assert suite is not None
    assert int(suite.attrib["tests"]) > 0
    assert suite.attrib["skipped"] == "0", f"{cell.name}: a skip here is a failure\n{outcome.log()[-12_000:]}"
