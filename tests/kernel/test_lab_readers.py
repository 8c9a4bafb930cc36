# SPDX-License-Identifier: Apache-2.0
"""What our own readers say of the lab's zombies is the lab's truth: the bytes of `scan`, each zombie and pin of `autopsy`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.kernel.command import IN_MACHINE, run_command
from tests.kernel.idle_pages import drops_idle_pages
from tests.kernel.lab_driver import LabDriver
from tests.kernel.test_lab_zombies import FILE_KINDS, SHMEM_KINDS, ZOMBIE_KINDS
from tests.kernel.truth_table import SEEN_AS
from tests.kernel.witness import Witness

from zombiescope.lab.pins.files import is_resident

COUNT = 5 if IN_MACHINE else 50


def _ask(*arguments: str) -> dict[str, Any]:
    ended = run_command([*arguments, "--json"])
    assert ended.status == 0, ended
    answer = json.loads(ended.out)
    assert isinstance(answer, dict)
    return answer


def _expected_bytes(truth: dict[str, Any], kind: str) -> dict[str, int]:
    held = truth["counts"]["bytes"]
    if kind in FILE_KINDS and drops_idle_pages():
        held = sum(made["bytes"] for made in truth["made"] if is_resident(made["file"]))
    return {
        "file": held if kind in FILE_KINDS else 0,
        "shmem": held if kind in SHMEM_KINDS else 0,
        "anon": 0,
        "swap": 0,
    }


@pytest.mark.kernel
def test_readers_tell_the_labs_truth(lab: LabDriver, witness: Witness) -> None:
    """Every kind that holds pages, side by side, each in a subtree of its own: one scan and one autopsy answer for all."""
    truths = lab.zombies_of([kind for kind in ZOMBIE_KINDS if kind in FILE_KINDS | SHMEM_KINDS], COUNT)
    witness.wait_for_ordinary_deaths()
    _scan_sees_the_bytes(truths)
    _autopsy_names_every_zombie_and_its_pin([made for truth in truths.values() for made in truth["made"]])


def _scan_sees_the_bytes(truths: dict[str, dict[str, Any]]) -> None:
    """Totals of the host belong to everyone; the rows of our subtrees are ours alone."""
    before = {kind: _expected_bytes(truth, kind) for kind, truth in truths.items()}
    seen = _ask("scan")
    assert seen["memcg"]["zombies"] >= sum(truth["counts"]["zombies"] for truth in truths.values())
    rows = {parent["path"]: parent["bytes"] for parent in seen["parents"]}
    for kind, truth in truths.items():
        after = _expected_bytes(truth, kind)
        for name, most in before[kind].items():
            assert after[name] <= rows[truth["subtree"]][name] <= most, (kind, name)


def _autopsy_names_every_zombie_and_its_pin(every: list[dict[str, Any]]) -> None:
    found = {zombie["id"]: zombie for zombie in _ask("autopsy", "--limit", "0")["zombies"]}
    page = os.sysconf("SC_PAGE_SIZE")
    for made in every:
        if made["id"] not in found and drops_idle_pages() and not is_resident(made["file"]):
            continue  # the kernel dropped the page, and the zombie with it
        zombie = found[made["id"]]
        assert zombie["path"] == made["path"]
        kinds = [pin["kind"] for pin in zombie["pins"] if made["pin"] != "dirty-file" or pin["kind"] != "writeback"]
        assert kinds == [SEEN_AS[made["pin"]]]  # v2 also tells that a dirty file is held until it is written
        assert zombie["pages"]["file"] + zombie["pages"]["shmem"] == made["bytes"] // page
        if made["file"] is not None and made["file"].startswith(("/dev/shm/", "/var/")):
            assert zombie["pins"][0]["path"] == made["file"]


@pytest.mark.kernel
def test_a_recording_replays_each_zombie_and_its_pins(lab: LabDriver, witness: Witness, tmp_path: Path) -> None:
    truths = lab.zombies_of(("tmpfs", "memfd", "sysv-shm", "unreaped"), 3).values()
    witness.wait_for_ordinary_deaths()
    file = str(tmp_path / "node.tar.gz")
    assert _ask("record", file, "--seconds", "0")["replays"]
    replayed = _ask("autopsy", "--root", file, "--limit", "0")
    found = {zombie["id"]: zombie for zombie in replayed["zombies"]}
    assert replayed["totals"]["zombies"] == len(found)
    for made in (made for truth in truths for made in truth["made"]):
        zombie = found[made["id"]]
        assert [pin["kind"] for pin in zombie["pins"]] == [SEEN_AS[made["pin"]]]
        assert zombie["pages"]["shmem"] == made["bytes"] // os.sysconf("SC_PAGE_SIZE")
        assert zombie["freed_by"]
