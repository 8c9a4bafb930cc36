# SPDX-License-Identifier: Apache-2.0
"""Story: the whole incident by one command, with a real unit that crash-loops, on cgroup v2; nothing of it is left."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.vm.cells import Cell
from tests.vm.stories.groves import memory_mount
from tests.vm.stories.product import document

COUNT = 400

# Minutes under emulation: where everything runs, not in CI. So few zombies slow a neighbour down on an older kernel only.
pytestmark = [pytest.mark.cells.with_args(lambda cell: cell.name == "6.1-v2"), pytest.mark.in_ci()]


def test_a_looping_unit_is_found_stopped_and_the_neighbour_recovers(cell: Cell) -> None:
    answer = document("lab", "incident", "--unit", "--count", str(COUNT), "--seconds", "2")
    stages = {stage["name"]: stage for stage in answer["stages"]}
    assert stages["an unused agent crash-loops"]["figures"]["zombies"] >= COUNT
    assert stages["the neighbour beside the zombies"]["figures"]["work_share"] < 0.8
    assert {"crash-looping-unit", "nic-reset"} <= set(stages["doctor"]["figures"]["present"])
    assert stages["apply"]["figures"]["freed"] >= 0.9 * COUNT
    assert any("stop:zombiescope-lab-" in typed for typed in stages["apply"]["outputs"]), "the unit is stopped"
    assert stages["the neighbour after the cure"]["figures"]["work_share"] >= 0.9
    assert not list(memory_mount(cell).glob("zombiescope*"))
    assert not [path for root in ("/run/systemd", "/etc/systemd") for path in Path(root).rglob("zombiescope*lab*")]
