# SPDX-License-Identifier: Apache-2.0
"""The last story of a machine: under lockdown in its strictest mode the kernel's memory, its events and what BPF could read of
it are forbidden, to root as well. Every reading command still answers, by another tier, and says why.

There is no way back short of a boot, so nothing is told after it: the matrix runs this file by its name, after everything else.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.vm.cells import Cell
from tests.vm.stories.groves import Grove, dying, settled
from tests.vm.stories.pins import PINS, SHARED
from tests.vm.stories.product import document, zombies_below

EACH = 3
_SWITCH = Path("/sys/kernel/security/lockdown")


@pytest.fixture(scope="module")
def grove(cell: Cell) -> Iterator[Grove]:
    grove = Grove(cell, "story-locked-down")
    by_kind = {pin.kind: pin for pin in PINS}
    for number in range(EACH):
        grove.bury(f"page{number}", by_kind["tmpfs"].bury)
        grove.bury(f"task{number}", by_kind["task"].bury)
    try:
        yield grove
    finally:
        grove.close()


@pytest.fixture(scope="module", autouse=True)
def lockdown(grove: Grove) -> None:
    if not _SWITCH.exists():
        subprocess.run(["mount", "-t", "securityfs", "securityfs", "/sys/kernel/security"], check=True)
    _SWITCH.write_text("confidentiality\n")
    assert "[confidentiality]" in _SWITCH.read_text()
    with pytest.raises(PermissionError):
        os.open("/proc/kcore", os.O_RDONLY)


def test_autopsy_takes_another_tier_and_says_why(cell: Cell, grove: Grove) -> None:
    answer = document("autopsy", "--limit", "0")
    assert answer["tier"] == "pages"
    reasons = " ".join(gap["reason"] for gap in answer["gaps"] if gap["fact"] in ("tier", "zombies"))
    assert "bpf(" in reasons and "/proc/kcore" in reasons and "lockdown" in reasons, answer["gaps"]
    named = {file["path"] for file in answer["pinned_files"] if file["parent"] == grove.path}
    written = {str(path) for path in SHARED.glob(f"{grove.folder.name}-page*")}
    assert len(written) == EACH
    if (
        cell.memory_is_v1 and cell.kernel == "5.10"
    ):  # memory.stat adds no small figure up: nothing is looked for, or some found
        assert named <= written
        return
    assert named == (set() if cell.reparents else written)


def test_the_count_needs_no_such_power(cell: Cell, grove: Grove) -> None:
    answer = document("scan")
    if cell.memory_is_v1:
        assert answer["memcg"]["zombies"] >= 2 * EACH
        return
    expected = EACH if cell.reparents else 2 * EACH
    assert settled(lambda: dying(grove.folder), expected) == expected, "the kernel's own count"
    assert zombies_below(document("scan"), grove.path) == expected


def test_the_split_that_needs_a_walk_is_a_gap_and_no_guess(cell: Cell, grove: Grove) -> None:
    answer = document("scan", "--exact")
    if not cell.memory_is_v1:  # plain files have it
        assert zombies_below(answer, grove.path) == (EACH if cell.reparents else 2 * EACH)
        return
    assert all(parent["zombies"] is None for parent in answer["parents"])
    field = "parents[].zombies" if answer["parents"] else "parents"  # 5.10 shows no bytes of so few pages
    (reason,) = [gap["reason"] for gap in answer["gaps"] if gap["fact"] == field]
    assert field == "parents" or "bpf(" in reason or "lockdown" in reason, reason
    assert answer["parents"] or cell.kernel == "5.10"


def test_doctor_still_judges(grove: Grove) -> None:
    findings = {finding["id"]: finding for finding in document("doctor", "--seconds", "0")["findings"]}
    assert findings["zombie-population"]["verdict"] in ("present", "absent")
