# SPDX-License-Identifier: Apache-2.0
"""SECURITY.md is true to the tool: every command has its row, every file of attacks its place in the threat model."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from zombiescope.cli.main import COMMANDS
from zombiescope.config import KEYS
from zombiescope.presenters.systemd_unit import render_unit

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
ATTACKS = sorted(path.name for path in (ROOT / "tests" / "hostile").glob("test_*.py"))


def section(heading: str) -> str:
    return TEXT.partition(f"## {heading}\n")[2].partition("\n## ")[0]


def rows(heading: str) -> list[list[str]]:
    lines = [line for line in section(heading).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_command_has_its_row_and_every_row_says_all() -> None:
    found = {cell.strip("`") for cell, *_ in rows("Who may do what")}
    assert set(COMMANDS) - found == set()
    for name, privilege, *_ in rows("Who may do what"):
        assert privilege, name


@pytest.mark.parametrize("command", COMMANDS)
def test_a_row_tells_privilege_reads_and_changes(command: str) -> None:
    (row,) = [row for row in rows("Who may do what") if row[0] == f"`{command}`"]
    assert len(row) == 5
    assert all(row[1:4]), row


@pytest.mark.parametrize("name", ATTACKS)
def test_every_file_of_attacks_is_in_the_threat_model(name: str) -> None:
    assert f"`tests/hostile/{name}`" in section("Threat model")


def test_what_listens_listens_where_it_says() -> None:
    default = next(str(key.default) for key in KEYS if key.name == "listen")
    (row,) = [row for row in rows("What listens, and where") if row[0] == "`agent`"]
    assert default in row[1]


def test_the_capabilities_of_the_unit_are_those_that_are_told() -> None:
    bounding = re.search(r"^CapabilityBoundingSet=(.*)$", render_unit("/usr/bin/zombiescope"), re.MULTILINE)
    assert bounding
    (row,) = [row for row in rows("Who may do what") if row[0] == "`agent`"]
    assert set(re.findall(r"CAP_\w+", row[1])) == set(bounding[1].split())
    (line,) = [line for line in section("Privileges in releases and distributions").splitlines() if "That unit" in line]
    assert set(re.findall(r"CAP_\w+", line)) == set(bounding[1].split())
