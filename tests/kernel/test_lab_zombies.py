# SPDX-License-Identifier: Apache-2.0
"""Every kind of zombie: the truth the lab tells is the truth the kernel tells, and `lab clean` ends it."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest
from tests.kernel.command import IN_MACHINE
from tests.kernel.exact_tiers import PAGES_PIN, told_if
from tests.kernel.idle_pages import most_lost
from tests.kernel.lab_driver import LabDriver, held_bytes, leftovers, segment_ids
from tests.kernel.witness import Witness

from zombiescope.lab.pins.files import is_resident
from zombiescope.lab.runs import KINDS

SHMEM_KINDS = {"tmpfs", "memfd", "shared-anon", "sysv-shm", "child"}
FILE_KINDS = {"page-cache", "dirty-file", "mapped-file"}
HELD_OTHERWISE = {"dirty-file", "socket", "unreaped"}
"""What keeps a zombie even where the pages of the dead are handed on."""
ZOMBIE_KINDS = [kind for kind in KINDS if kind not in ("visible", "swap") and (PAGES_PIN or kind in HELD_OTHERWISE)]
COUNTS = [5] if IN_MACHINE else [1, 50]
MANY = ZOMBIE_KINDS if os.environ.get("ZOMBIESCOPE_LAB_ALL") else ["tmpfs", "page-cache", "memfd", "socket"]


@pytest.mark.kernel
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kind", ZOMBIE_KINDS)
def test_truth_is_the_kernels(lab: LabDriver, witness: Witness, kind: str, count: int) -> None:
    _make_and_compare(lab, witness, kind, count)


@told_if(not IN_MACHINE)
@pytest.mark.kernel
@pytest.mark.parametrize("kind", MANY)
def test_two_thousand(lab: LabDriver, witness: Witness, kind: str) -> None:
    _make_and_compare(lab, witness, kind, 2000)


@pytest.mark.kernel
def test_swapped_out_while_alive(lab: LabDriver, witness: Witness) -> None:
    """Without swap the refusal is what can be seen; the kind itself is made in the kernel matrix too."""
    with open("/proc/swaps", encoding="ascii") as table:
        has_swap = len(table.readlines()) > 1
    if has_swap:
        _make_and_compare(lab, witness, "swap", COUNTS[-1])
        return
    name = lab.new_name()
    message = lab.run("zombies", "--pin", "swap", "--name", name, code=3)
    assert "this host has no swap in use" in message
    assert leftovers(lab.hierarchy, name) == []


def _make_and_compare(lab: LabDriver, witness: Witness, kind: str, count: int) -> None:
    witness.forget()
    truth = lab.zombies(kind, count)
    subtree = truth["subtree"]
    ids = {made["id"] for made in truth["made"]}
    expected = 2 * count if kind == "child" else count
    assert len(ids) == len(truth["made"]) == truth["counts"]["zombies"] == expected
    assert not any(lab.hierarchy.exists(made["path"]) for made in truth["made"])
    witness.wait_for_ordinary_deaths()
    assert witness.ids("rmdir", subtree) == ids
    _only_evicted_ones_are_released(kind, truth, witness.ids("release", subtree) & ids)
    _compare_bytes(lab, witness, kind, truth)
    lab.clean(truth["run"])
    witness.wait_for_release(ids, subtree)
    assert leftovers(lab.hierarchy, truth["run"]) == []


def _only_evicted_ones_are_released(kind: str, truth: dict[str, Any], released: set[int]) -> None:
    """Where the kernel drops idle pages a zombie may be gone: then, and only then, its page is."""
    evicted = {made["id"] for made in truth["made"] if kind in FILE_KINDS and not is_resident(made["file"])}
    assert released <= evicted
    assert len(released) <= most_lost(len(truth["made"]))


def _expected_bytes(kind: str, truth: dict[str, Any]) -> dict[str, int]:
    pages = truth["counts"]["bytes"]
    if kind in FILE_KINDS:
        pages = sum(made["bytes"] for made in truth["made"] if is_resident(made["file"]))
    is_shmem = kind in SHMEM_KINDS
    return {"file": pages if kind in FILE_KINDS or is_shmem else 0, "shmem": pages if is_shmem else 0, "anon": 0}


def _compare_bytes(lab: LabDriver, witness: Witness, kind: str, truth: dict[str, Any]) -> None:
    if kind != "swap":
        # The kernel's figures may be two seconds old.
        witness.wait_until(lambda: held_bytes(lab.hierarchy, truth["subtree"]) == _expected_bytes(kind, truth))


@told_if(PAGES_PIN)
@pytest.mark.kernel
def test_files_of_the_truth_exist(lab: LabDriver) -> None:
    for kind in ("tmpfs", "page-cache", "child"):
        truth = lab.zombies(kind, 3)
        files = [made["file"] for made in truth["made"] if made["bytes"]]
        assert len(files) == 3
        assert all(os.path.getsize(file) == os.sysconf("SC_PAGE_SIZE") for file in files)


@pytest.mark.kernel
def test_segments_carry_the_keys_of_the_truth(lab: LabDriver) -> None:
    before = segment_ids()
    truth = lab.zombies("sysv-shm", 3)
    assert len(segment_ids() - before) == 3
    assert all(made["file"].startswith("/SYSV7a6c") for made in truth["made"])
    assert lab.clean(truth["run"])["removed"]["segments"] == 3
    assert segment_ids() <= before


@pytest.mark.kernel
def test_visible_directories_are_no_zombies(lab: LabDriver, witness: Witness) -> None:
    witness.forget()
    truth = lab.zombies("visible", 50)
    assert truth["counts"] | {"made": 50, "zombies": 0, "visible": 50} == truth["counts"]
    assert all(lab.hierarchy.exists(made["path"]) for made in truth["made"])
    assert not witness.ids("rmdir", truth["subtree"])
    lab.clean(truth["run"])
    witness.wait_for_release({made["id"] for made in truth["made"]}, truth["subtree"])
    assert leftovers(lab.hierarchy, truth["run"]) == []


@told_if(PAGES_PIN)
@pytest.mark.kernel
@pytest.mark.parametrize(("style", "rows"), [("service", 1), ("docker", 1), ("ecs", 2)])
def test_leak_leaves_one_life_after_the_other(lab: LabDriver, witness: Witness, style: str, rows: int) -> None:
    witness.forget()
    name = lab.new_name()
    order = ("--maker", "crashy-agent", "--per-minute", "600", "--seconds", "0.5", "--style", style)
    truth = json.loads(lab.run("leak", *order, "--name", name, "--json"))
    ids = {made["id"] for made in truth["made"]}
    assert len(ids) == 5 * rows
    witness.wait_for_ordinary_deaths()
    assert witness.ids("rmdir", truth["subtree"]) == ids
    assert not witness.ids("release", truth["subtree"]) & ids
    lab.clean(name)
    witness.wait_for_release(ids, truth["subtree"])


@pytest.mark.kernel
def test_churn_leaves_nothing(lab: LabDriver, witness: Witness) -> None:
    witness.forget()
    name = lab.new_name()
    truth = json.loads(lab.run("churn", "--rate", "200", "--seconds", "0.5", "--name", name, "--json"))
    born = witness.ids("mkdir", truth["subtree"])
    assert len(born) == truth["churn"]["births"] == truth["churn"]["deaths"]
    assert 1 <= len(born) <= 101, "never faster than asked; a busy machine may be slower"
    witness.wait_for_release(born, truth["subtree"])
    assert leftovers(lab.hierarchy, name) == []
