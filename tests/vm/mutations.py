# SPDX-License-Identifier: Apache-2.0
"""One way to break our code for each story, and the proof that the story notices: `python3 -m tests.vm.mutations` in a cell.

A mutant is a copy of the package with one passage replaced. It is caught when its story fails; a story that cannot even
be collected proves nothing and counts as not caught.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from tests.vm.cells import WHICH_VARIABLE, Cell, Hierarchy, Init, cell_named

CHECKOUT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Mutation:
    name: str
    story: str
    file: str
    old: str
    new: str
    where: Callable[[Cell], object]
    required_in: str = ""
    """The cell that runs it in CI; everywhere it applies when all cells run."""

    def applies(self, cell: Cell, which: str) -> bool:
        return bool(self.where(cell)) if which == "all" else cell.name == self.required_in


MUTATIONS = (
    Mutation(
        "the live descendants of a parent are taken for the dead",
        "test_census.py::test_every_kind_below_its_parent",
        "probes/readers/cgroup_census.py",
        "return values[self._key]",
        'return values[b"nr_descendants"]',
        lambda cell: cell.hierarchy is Hierarchy.V2,
        required_in="5.10-v2",
    ),
    Mutation(
        "a maker is named by its slice instead of its unit",
        "test_crash_loop.py",
        "analysis/maker.py",
        'if not plain.endswith(b".slice"):',
        'if plain.endswith(b".slice"):',
        lambda cell: cell.init is Init.SYSTEMD and not cell.reparents,
    ),
    Mutation(
        "swap is read from the wrong file",
        "test_swap.py",
        "probes/readers/memcg_residual.py",
        'b"memory.swap.current"',
        'b"memory.swap.events"',
        lambda cell: cell.swap_megabytes and cell.hierarchy is Hierarchy.V2,
        required_in="7.2-v2",
    ),
    Mutation(
        "what is in swap and in memory is asked for with file pages alone",
        "test_freeing.py::test_what_is_in_swap_and_still_in_memory_goes_by_reclaim_first",
        "remedies/recipes/disk_memory.py",
        "size * situation.page_bytes, swapped > 0)",
        "size * situation.page_bytes, False)",
        lambda cell: cell.swap_megabytes and cell.kernel in {"6.12", "7.0"},  # 6.1 knows no file pages alone
    ),
    Mutation(
        "the columns of /proc/cgroups are mixed up",
        "test_legacy.py",
        "probes/cgroups.py",
        "ControllerRow(values[0], values[1],",
        "ControllerRow(values[0], values[0],",
        lambda cell: cell.memory_is_v1,
        required_in="6.1-v1",
    ),
    Mutation(
        "a container's view is taken for the whole machine",
        "test_views.py",
        "probes/cgroups.py",
        "def _why_partial(host: Host, mount: CgroupMount) -> str:\n",
        'def _why_partial(host: Host, mount: CgroupMount) -> str:\n    return ""\n',
        lambda cell: True,
    ),
    Mutation(
        "the lab frees swap entries that are still being written",
        "test_lab.py::test_cleans_up_beside_a_slow_swap_device",
        "lab/cleaning.py",
        "            view[start]\n",
        "            pass\n",
        lambda cell: cell.name == "6.1-v2",  # one kernel with a cache of swap slots is enough
    ),
    Mutation(
        "the lab leaves on at the root what it turned on",
        "test_lab.py::test_what_it_turned_on_at_the_root_it_turns_off_unless_somebody_needs_it",
        "lab/hierarchy.py",
        'b"-memory"',
        'b"+memory"',
        lambda cell: cell.init is Init.MINI and not cell.memory_is_v1,
    ),
    Mutation(
        "the lab forgets its segments",
        "test_lab.py",
        "lab/cleaning.py",
        "        if owner == cleaned.run or (owner",
        "        if owner is None or (owner",
        lambda cell: True,
    ),
)


def mutate(mutation: Mutation, folder: Path) -> None:
    """A copy of the package in `folder`, with the one passage replaced and without its byte code."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(CHECKOUT / "src" / "zombiescope", folder / "zombiescope")
    source = folder / "zombiescope" / mutation.file
    text = source.read_text()
    assert text.count(mutation.old) == 1, f"{mutation.file} has no single {mutation.old!r}"
    source.write_text(text.replace(mutation.old, mutation.new))
    for compiled in (source.parent / "__pycache__").glob(source.stem + ".*"):
        compiled.unlink()


def is_caught(mutation: Mutation, folder: Path) -> bool:
    mutate(mutation, folder)
    report = folder / "junit.xml"
    paths = [str(folder), *(path for path in os.environ["PYTHONPATH"].split(":") if not path.endswith("/src"))]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "--tb=line",
        "-rN",  # a mutant that fails is no failure
        f"--junitxml={report}",
        "-o",
        f"pythonpath={CHECKOUT}",
    ]
    environment = {**os.environ, "PYTHONPATH": ":".join(paths)}
    done = subprocess.run([*command, f"tests/vm/stories/{mutation.story}"], env=environment, check=False, cwd=CHECKOUT)
    suite = ET.parse(report).getroot().find("testsuite")
    assert suite is not None
    return done.returncode == 1 and int(suite.attrib["failures"]) > 0


def main() -> int:
    cell = cell_named(os.environ["ZOMBIESCOPE_VM_CELL"])
    chosen = [mutation for mutation in MUTATIONS if mutation.applies(cell, os.environ.get(WHICH_VARIABLE, "required"))]
    caught = {mutation.name: is_caught(mutation, Path("/var/tmp/mutant")) for mutation in chosen}
    Path("/out/mutants.json").write_text(json.dumps(caught, indent=1))
    for name, was_caught in caught.items():
        print(f"{'caught' if was_caught else 'NOT CAUGHT'}: {name}")
    return 0 if all(caught.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
