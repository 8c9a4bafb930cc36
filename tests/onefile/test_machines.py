# SPDX-License-Identifier: Apache-2.0
"""The one file on old kernels, in a root that holds nothing but the file, /proc and /sys: no Python, no libraries, no shell.

It makes zombies, counts them, names what pins each, judges, and removes them again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.onefile.conftest import FILE
from tests.vm.build import Store, say
from tests.vm.cells import cell_named
from tests.vm.machine import STOP, Outcome, run_job
from tests.vm.recipe import REPOSITORY

_MACHINES = {
    "x86_64": {"5.10-v2": "kcore", "6.1-v2": "bpf"},
    "aarch64": {"6.12-arm64": "bpf", "6.12-arm64-16k": "bpf"},
}
TIERS = next((tiers for machine, tiers in _MACHINES.items() if FILE.name.endswith(machine)), {})
"""By the architecture that the file was built for: the machines are emulated, whatever this one is."""
COUNT = 3
TIMEOUT_SECONDS = 1200
RESULTS = REPOSITORY / "build" / "onefile"
RUN = f"""#!/bin/sh
# The machine's own root has a Python: the file is run where there is none.
mkdir -p /bare/proc /bare/sys /bare/dev/shm /bare/tmp /bare/var/tmp /bare/var/lib /bare/run
cp /job/zombiescope /bare/zombiescope
find /bare -type f >/out/files
mount --rbind /proc /bare/proc
mount --rbind /sys /bare/sys
told() {{
    name=$1; shift; echo "$name"
    chroot /bare /zombiescope "$@" >"/out/$name.out" 2>"/out/$name.err"
    echo $? >"/out/$name.status"
}}
told version --version
told lab lab zombies --pin page-cache --count {COUNT} --name bare --json
told scan scan --json
told autopsy autopsy --limit 0 --json
told doctor doctor --seconds 1 --json
told self-check self-check --json
told flame profile flame
told clean lab clean --name bare
exit 0
"""
pytestmark = pytest.mark.skipif(not TIERS, reason=f"no machine is of the architecture of {FILE.name}")


@pytest.fixture(scope="module")
def outcomes(one_file: Path) -> Iterator[dict[str, Outcome]]:
    cells = [cell_named(name) for name in TIERS]
    store = Store()
    store.ensure([cell.image for cell in cells], [cell.kernel_part for cell in cells])
    with ThreadPoolExecutor(len(cells)) as machines:
        try:
            begun = {cell.name: machines.submit(run_in, store, cell.name, one_file) for cell in cells}
            yield {name: future.result() for name, future in begun.items()}
        except BaseException:
            STOP.set()
            raise


def run_in(store: Store, name: str, file: Path) -> Outcome:
    """Once more where it failed: a moment may be too short under emulation."""
    outcome = run_once(store, name, file)
    return outcome if outcome.status == 0 or STOP.is_set() else run_once(store, name, file)


def run_once(store: Store, name: str, file: Path) -> Outcome:
    job = RESULTS / "jobs" / name
    shutil.rmtree(job, ignore_errors=True)
    job.mkdir(parents=True)
    shutil.copy(file, job / "zombiescope")
    (job / "run").write_text(RUN)
    (job / "run").chmod(0o755)
    outcome = run_job(store, cell_named(name), job, RESULTS / name, TIMEOUT_SECONDS)
    shutil.rmtree(job)
    say(f"one file in {name}: status {outcome.status} in {outcome.cost()}, {outcome.reason}")
    return outcome


class Told:
    """What the commands said in one machine."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def text(self, name: str, status: int = 0) -> str:
        said = (self.folder / f"{name}.err").read_text(errors="replace")
        assert (self.folder / f"{name}.status").read_text().strip() == str(status), said
        assert "Traceback" not in said
        assert "bug" not in said
        return (self.folder / f"{name}.out").read_text()

    def document(self, name: str) -> dict[str, Any]:
        found = json.loads(self.text(name))
        assert isinstance(found, dict)
        return found


@pytest.fixture(params=TIERS)
def told(request: pytest.FixtureRequest, outcomes: dict[str, Outcome]) -> Told:
    outcome = outcomes[request.param]
    assert outcome.status == 0, f"{outcome.reason}\n{outcome.log()[-3000:]}"
    return Told(outcome.folder)


def test_there_was_nothing_but_the_file(told: Told) -> None:
    assert (told.folder / "files").read_text().split() == ["/bare/zombiescope"]
    assert told.text("version").startswith("zombiescope, version ")


def test_it_counts_names_and_judges_what_it_made(told: Told) -> None:
    made = told.document("lab")
    parent = made["subtree"] if "subtree" in made else made["parent"]
    scan = told.document("scan")
    assert scan["memcg"]["zombies"] >= COUNT
    autopsy = told.document("autopsy")
    assert autopsy["tier"] == TIERS[told.folder.name]
    ours = [zombie for zombie in autopsy["zombies"] if zombie["path"].startswith(parent)]
    assert len(ours) == COUNT
    for zombie in ours:
        assert {pin["kind"] for pin in zombie["pins"]} == {"page_cache"}
        assert zombie["pins"][0]["path_in_fs"]
    findings = {finding["id"]: finding["verdict"] for finding in told.document("doctor")["findings"]}
    assert findings["zombie-population"] in ("present", "absent")
    told.text("clean")


def test_it_knows_itself_and_what_it_lacks(told: Told) -> None:
    seen = told.document("self-check")
    assert seen["build"]["kind"] == "one-file"
    walked = {"kcore": "kcore", "bpf": "exact"}[TIERS[told.folder.name]]
    assert seen["parts"][walked]["status"] == "works"
    assert seen["parts"]["profiles"]["status"] == "no"
    told.text("flame", status=2)
    assert "not in the one-file build" in (told.folder / "flame.err").read_text()
