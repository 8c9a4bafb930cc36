# SPDX-License-Identifier: Apache-2.0
"""An archive asked on a real Ray cluster of two nodes, on demand (`make test-ray`): both count, and say what one machine says."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from tests.profiler.archived import PLANTED, ship_fleet

from zombiescope.cli.main import main
from zombiescope.profiler.archive.places import Where, place_at

PYTHON = Path(os.environ.get("ZOMBIESCOPE_RAY", "")) / "bin/python"
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "words",
    [["diff", "--where", "zone=c"], ["find", "--function", PLANTED, "--window", "1"]],
    ids=lambda words: words[0],
)
def test_two_nodes_say_what_one_machine_says(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if not PYTHON.exists():
        pytest.skip("needs a Ray: make test-ray")
    ship_fleet(place_at(Where(str(tmp_path))))
    assert main(["profile", "fleet", *words, "--archive", str(tmp_path), "--json"]) == 0
    ours = json.loads(capsys.readouterr().out)
    command = [str(PYTHON), str(ROOT / "tests/ray/two_nodes.py"), str(tmp_path), "3000", *words]
    surroundings = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"}
    done = subprocess.run(command, env=surroundings, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    there = json.loads(done.stdout.splitlines()[-1])
    assert there["code"] == 0
    assert len(there["ran"]) == 2, "both nodes ran tasks"
    assert there["answer"] == ours
