# SPDX-License-Identifier: Apache-2.0
"""Machines recorded from the kernel matrix: a replay tells what the kernel itself told, beside the product, at that time."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from tests.vm.cells import CELLS

from zombiescope.cli.main import main

MACHINES = Path(__file__).resolve().parents[2] / "machines"
RECORDED = sorted(path.parent for path in MACHINES.glob("*/MACHINE.toml"))


def replayed(machine: Path, command: str, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    status = main([command, "--json", "--root", str(machine)])
    said = capsys.readouterr()
    assert status == 0, said.err
    answer = json.loads(said.out)
    assert isinstance(answer, dict)
    return answer


def test_every_cell_is_recorded() -> None:
    assert {machine.name for machine in RECORDED} == {cell.name for cell in CELLS}, "tools/record_machines.py CELL"


@pytest.mark.parametrize("machine", RECORDED, ids=lambda machine: machine.name)
def test_scan_of_a_recording_is_the_kernels_truth(machine: Path, capsys: pytest.CaptureFixture[str]) -> None:
    about = tomllib.loads((machine / "MACHINE.toml").read_text())
    truth = json.loads(about["truth"])
    answer = replayed(machine, "scan", capsys)
    assert answer["host"]["kernel"] == about["kernel"]
    assert answer["memcg"]["zombies"] == truth["zombies"]
    seen = {parent["path"]: parent["zombies"] for parent in answer["parents"]}
    assert {path: seen.get(path, 0) for path in truth["parents"]} == truth["parents"]
    if not truth["parents"]:
        assert answer["memcg"]["hierarchy"] == "v1"


@pytest.mark.parametrize("machine", RECORDED, ids=lambda machine: machine.name)
def test_a_recording_names_nobody(machine: Path) -> None:
    text = (machine / "recording.jsonl").read_text()
    assert "testhost" not in text
    assert "0123456789abcdef0123456789abcdef" not in text, "the machine id of the image"
