# SPDX-License-Identifier: Apache-2.0
"""The incident from cause to cure by one command, small; and that nothing of it stays when it is killed anywhere on the way."""

from __future__ import annotations

import json
import random
import signal
import time
from pathlib import Path

import pytest
from tests.kernel.lab_driver import LabDriver, leftovers

COUNT = 1000
"""From here on doctor must name the origin, whatever else it sees."""
KILLS = 4


@pytest.mark.kernel
def test_the_incident_is_reproduced_and_healed(lab: LabDriver, tmp_path: Path) -> None:
    """Each stage asserts by itself and ends the command; here: what they told."""
    name, account = lab.new_name(), tmp_path / "incident.md"
    options = ("--count", str(COUNT), "--seconds", "1.5", "--name", name, "--account", str(account))
    process = lab.start("incident", *options, "--json")
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    stages = {stage["name"]: stage["figures"] for stage in json.loads(out)["stages"]}
    assert stages["an unused agent crash-loops"]["zombies"] == COUNT
    assert stages["the neighbour beside the zombies"]["work_share"] < 0.8
    assert "nic-reset" in stages["doctor"]["present"]
    assert stages["doctor"]["origin"] == "pinned-shared-memory"
    assert stages["doctor"]["first_remedy"] == "delete-file"
    assert stages["apply"]["foreseen"] == COUNT
    assert stages["apply"]["freed"] >= 0.9 * COUNT
    assert stages["verify"]["verdict"] == "held"
    assert stages["the neighbour after the cure"]["work_share"] >= 0.9
    assert leftovers(lab.hierarchy, name) == []
    text = account.read_text()
    assert all(stage in text for stage in stages)
    assert "delete:/" in text, "the plan as it was printed"


@pytest.mark.kernel
def test_killed_anywhere_nothing_is_left_after_cleaning(lab: LabDriver) -> None:
    """Side by side, each killed at a moment of its own."""
    chance, began = random.Random(6), time.monotonic()
    runs = []
    for _ in range(KILLS):
        name = lab.new_name()
        process = lab.start("incident", "--count", "150", "--seconds", "1", "--name", name)
        runs.append((chance.uniform(0.5, 9.0), name, process))
    for moment, _, process in sorted(runs, key=lambda run: run[0]):
        time.sleep(max(began + moment - time.monotonic(), 0.0))
        process.send_signal(signal.SIGKILL)
        process.communicate()
    for _, name, _ in runs:
        lab.run("clean", "--name", name)
        assert leftovers(lab.hierarchy, name) == []
