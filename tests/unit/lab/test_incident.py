# SPDX-License-Identifier: Apache-2.0
"""The incident asks our own command, from whatever folder it was begun."""

from __future__ import annotations

from pathlib import Path

import pytest

from zombiescope.errors import ActionFailedError
from zombiescope.lab.incident import Incident, IncidentOrder
from zombiescope.lab.scenes import LabScene


def test_a_package_of_our_name_in_the_folder_we_are_in_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "zombiescope").mkdir()
    for name in ("__init__", "__main__"):
        (tmp_path / f"zombiescope/{name}.py").write_text("print('run by root')")
    monkeypatch.chdir(tmp_path)
    assert "version" in Incident._printed(object.__new__(Incident), "--version")


def judged(zombies: int, *told: str) -> bool:
    incident = object.__new__(Incident)
    incident._order, incident.scene = IncidentOrder(zombies), object.__new__(LabScene)
    try:
        incident._must_be_right(dict(zip(("origin", "maker", "first_remedy"), told, strict=True)), "what was said")
    except ActionFailedError:
        return False
    return True


@pytest.mark.parametrize("zombies", [150, 999, 1_000, 20_000])
def test_doctor_is_right_at_every_size_or_names_no_origin_of_a_small_stock(zombies: int) -> None:
    assert judged(zombies, "pinned-shared-memory", "path:/zombiescope-lab/x/unused-agent", "delete-file")
    for untold in ("none", "unknown", "nic-reset"):
        assert judged(zombies, untold, "", "none") == (zombies < 1_000)
    for wrong in ("memory-shortage", "costly-sweep", "cpu-shortage", "crash-looping-unit", "zombie-growth"):
        assert not judged(zombies, wrong, "", "give-memory"), "never another origin, however few there are"
    assert not judged(zombies, "pinned-shared-memory", "unit:other.service", "delete-file")
