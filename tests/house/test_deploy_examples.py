# SPDX-License-Identifier: Apache-2.0
"""The examples in deploy/ci call commands and flags that exist, and their gate file is one that `check` takes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.house.test_docs import unknown_in

from zombiescope.diagnosis.limits import Limits, parse_gate_file, with_values

CI = Path(__file__).resolve().parents[2] / "deploy/ci"
EXAMPLES = sorted(path for path in CI.iterdir() if path.suffix != ".toml")
CALL = re.compile(r"(?:^|[\s/])zombiescope ((?:audit|check|scan)[^\"\n>]*)", re.MULTILINE)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.name)
def test_every_call_exists(example: Path) -> None:
    calls = CALL.findall(example.read_text(encoding="utf-8"))
    assert any("check" in call for call in calls)
    assert [unknown_in(call) for call in calls if unknown_in(call)] == []


def test_there_is_one_for_each_of_the_three() -> None:
    assert {path.stem.partition(".")[0] for path in EXAMPLES} == {"packer", "github-actions", "gitlab-ci"}


def test_the_gate_file_is_taken() -> None:
    file = parse_gate_file((CI / "gate.toml").read_bytes(), "gate.toml")
    assert with_values(Limits(), file.limits, "gate.toml") == Limits()
    assert file.waivers[0][0] == "unneeded-agent:snapd*"
    assert file.needs[0].unit == "our-agent.service"
