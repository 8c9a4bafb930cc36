# SPDX-License-Identifier: Apache-2.0
"""The example notebook reads an archive: its cells are run one after the other in one namespace, as a kernel runs them, by a Python
of its own. Jupyter itself is not started: 60 packages for the same cells."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.profiler.archived import PLANTED, ship_fleet

from zombiescope.profiler.archive.places import Where, place_at

NOTEBOOK = Path(__file__).parents[2] / "deploy/notebook/profile-archive.ipynb"
RUN = (
    "import json, sys\n"
    "cells = [cell for cell in json.load(open(sys.argv[1]))['cells'] if cell['cell_type'] == 'code']\n"
    "space = {'__name__': '__main__'}\n"
    "for cell in cells:\n"
    "    text = ''.join(cell['source'])\n"
    "    print('#', cell['id'])\n"
    "    exec(compile(text, cell['id'], 'exec'), space)\n"
)


def test_it_is_a_notebook_without_results_of_somebody() -> None:
    document = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    assert {cell["cell_type"] for cell in document["cells"]} == {"code", "markdown"}
    assert len({cell["id"] for cell in document["cells"]}) == len(document["cells"])
    for cell in document["cells"]:
        assert isinstance(cell["source"], list)
        if cell["cell_type"] == "code":
            assert (cell["outputs"], cell["execution_count"]) == ([], None)
            assert "zombiescope." not in "".join(cell["source"]), "it needs nothing of ours"


@pytest.mark.parametrize("is_planted", [True, False])
def test_every_cell_runs_and_the_planted_function_is_told(tmp_path: Path, is_planted: bool) -> None:
    ship_fleet(place_at(Where(str(tmp_path))), more=0.08 if is_planted else 0)
    surroundings = {**os.environ, "ZOMBIESCOPE_ARCHIVE": str(tmp_path)}
    command = [sys.executable, "-c", RUN, str(NOTEBOOK)]
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    risen = [line for line in done.stdout.splitlines() if " points " in line]
    assert len(risen) == 10
    hot = [line for line in risen if f"'{PLANTED}'" in line]
    assert bool(hot and float(hot[0].split()[0]) > 4) == is_planted
