# SPDX-License-Identifier: Apache-2.0
"""Every cell of the matrix: the kernel tier, the stories and some mutants run inside it, three machines at a time.

ZOMBIESCOPE_VM_CELLS: `required` (default), `all`, or names with commas between, which get all that can be told there, or
`required:` and names, which get what CI tells there. Results stay in build/vm/CELL.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from xml.etree import ElementTree as ET

import pytest
from tests.run_again import note_retry
from tests.vm.build import Store, say
from tests.vm.cells import CELLS, WHICH_VARIABLE, Cell, cell_named
from tests.vm.job import stage
from tests.vm.kernel_tier import selection
from tests.vm.machine import STOP, Outcome, run_job
from tests.vm.mutations import MUTATIONS
from tests.vm.recipe import PLATFORMS, REPOSITORY

pytestmark = pytest.mark.vm

MACHINES_AT_A_TIME = 3
"""On two cores: a machine waits a third of its time, for windows, restarts and what the kernel does later."""
TIMEOUT_SECONDS = {"required": 3600, "all": 9600}
"""Of a CPU, for a machine that goes round in circles: several times what one takes, for another CPU may be slower."""
RESULTS = REPOSITORY / "build" / "vm"
LOCKED_DOWN_IN_CI = ("5.10-v2", "7.2-v2")
"""The oldest and the newest kernel."""
PYTEST = ["python3", "-m", "pytest", "-vv", "-rfEs", "--tb=short", "--durations=5", "-o", "faulthandler_timeout=600"]


def asked() -> str:
    return os.environ.get("ZOMBIESCOPE_VM_CELLS", "required")


def chosen_cells() -> list[Cell]:
    if asked() in {"all", "required"}:
        return [cell for cell in CELLS if cell.required or asked() == "all"]
    return [cell_named(name) for name in asked().removeprefix("required:").split(",")]


def which() -> str:
    return "required" if asked().startswith("required") else "all"


def in_guest(cell: Cell) -> list[str]:
    """One shell line: kernel tier, stories, mutants, and the story there is no way back from. All of them always run."""
    steps = [
        [*PYTEST, "--junitxml=/out/stories.xml", "tests/vm/stories"],
        ["python3", "-m", "tests.vm.mutations"],
    ]
    if chosen := selection(cell, which()):
        steps.insert(0, [*PYTEST, "--junitxml=/out/kernel.xml", *chosen])
    if is_locked_down(cell):
        steps.append([*PYTEST, "--junitxml=/out/locked_down.xml", "tests/vm/stories/locked_down.py"])
    line = "failed=0; " + "".join(f"{shlex.join(step)} || failed=1; " for step in steps) + "exit $failed"
    return ["env", f"{WHICH_VARIABLE}={which()}", "sh", "-c", line]


def is_locked_down(cell: Cell) -> bool:
    return (which() == "all" and not cell.selinux) or cell.name in LOCKED_DOWN_IN_CI


def reports(cell: Cell) -> list[str]:
    """What the cell must bring home."""
    kernel = ["kernel.xml"] if selection(cell, which()) else []
    return [*kernel, "stories.xml", *(["locked_down.xml"] if is_locked_down(cell) else [])]


def run_cell(store: Store, cell: Cell, *, is_second: bool = False) -> Outcome:
    job = stage(RESULTS / "jobs" / cell.name, cell, in_guest(cell))
    outcome = run_job(store, cell, job, RESULTS / cell.name, TIMEOUT_SECONDS[which()])
    shutil.rmtree(job)
    say(f"{cell.name}: status {outcome.status} in {outcome.cost()}, {outcome.reason}")
    if outcome.status != 0 and not is_second and not STOP.is_set():
        crash = outcome.crash()
        kept = keep_first(outcome)
        note_retry(f"the machine {cell.name}")
        say(f"{cell.name}: once more, {why_once_more(store, cell, crash)}; what fails twice fails ({kept})")
        return run_cell(store, cell, is_second=True)
    return outcome


def why_once_more(store: Store, cell: Cell, crash: str | None) -> str:
    """A kernel that crashed is replaced by the next older one: nothing that we test may crash one, so say it aloud."""
    if crash is None:
        return "for a moment may be too short under emulation"
    version = store.kernel_version(cell.kernel_part)
    older = store.replace_kernel(cell.kernel_part, version)
    return f"for its kernel {version} crashed ({crash}), now with {older or 'the same: no older one is offered'}"


def keep_first(outcome: Outcome) -> str:
    """What failed at first, in words, and where all of it is kept: the second run would write over it."""
    failed = [line for line in outcome.log().splitlines() if line.startswith(("FAILED ", "ERROR ", "NOT CAUGHT"))]
    place = outcome.folder.with_name(f"{outcome.folder.name}-first")
    shutil.rmtree(place, ignore_errors=True)
    outcome.folder.rename(place)
    return "; ".join([*failed[:5], f"see {place.relative_to(REPOSITORY)}"])


@pytest.fixture(scope="session")
def outcomes() -> Iterator[dict[str, Future[Outcome]]]:
    emulators = {PLATFORMS[cell.platform].emulator for cell in chosen_cells()}
    if missing := [program for program in (*sorted(emulators), "mke2fs", "apt-get") if not shutil.which(program)]:
        reason = f"not installed: {', '.join(missing)} (try: tools/install-packages)"
        (pytest.fail if "vm" in os.environ.get("ZOMBIESCOPE_REQUIRE", "") else pytest.skip)(reason)
    store = Store()
    store.ensure([cell.image for cell in chosen_cells()], [cell.kernel_part for cell in chosen_cells()])
    machines = ThreadPoolExecutor(MACHINES_AT_A_TIME)
    try:
        yield {cell.name: machines.submit(run_cell, store, cell) for cell in chosen_cells()}
    finally:
        STOP.set()  # all are through, or Ctrl-C: then none is waited for
        machines.shutdown(cancel_futures=True)


def counts(outcome: Outcome, name: str) -> dict[str, int]:
    suite = ET.parse(outcome.folder / name).getroot().find("testsuite")
    assert suite is not None
    return {key: int(suite.attrib[key]) for key in ("tests", "failures", "errors", "skipped")}


@pytest.mark.parametrize("cell", chosen_cells(), ids=lambda cell: cell.name)
def test_cell(cell: Cell, outcomes: dict[str, Future[Outcome]]) -> None:
    outcome = outcomes[cell.name].result()
    assert outcome.status == 0, f"{cell.name}: {outcome.reason}\n{outcome.log()[-12_000:]}"
    for name in reports(cell):
        seen = counts(outcome, name)
        assert seen["tests"] > 0
        assert seen["skipped"] == 0, f"{cell.name}: a skip here is a failure\n{outcome.log()[-12_000:]}"
    expected = {mutation.name for mutation in MUTATIONS if mutation.applies(cell, which())}
    assert json.loads((outcome.folder / "mutants.json").read_text()) == dict.fromkeys(expected, True)
