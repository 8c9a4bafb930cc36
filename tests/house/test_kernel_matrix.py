# SPDX-License-Identifier: Apache-2.0
"""The kernel matrix is kept: its page is what its table says, its mutants still fit, its exceptions still exist."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.vm.archive import BuildError, mirrors
from tests.vm.build import NEWEST, newest_of
from tests.vm.cells import CELLS
from tests.vm.kernel_tier import TIER
from tests.vm.machine import Listener, Outcome
from tests.vm.mutations import MUTATIONS, Mutation, mutate
from tests.vm.recipe import CRASHING_KERNELS
from tools.write_kernels_page import PAGE, TABLE, render

ROOT = Path(__file__).resolve().parents[2]


def test_the_page_is_what_the_table_says() -> None:
    seen = json.loads(TABLE.read_text())
    assert PAGE.read_text() == render(seen), "run tools/write_kernels_page.py"
    assert list(seen) == [cell.name for cell in CELLS]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutant_can_be_made_and_has_a_cell(mutation: Mutation, tmp_path: Path) -> None:
    mutate(mutation, tmp_path / "mutant")
    original = (ROOT / "src/zombiescope" / mutation.file).read_text()
    assert (tmp_path / "mutant/zombiescope" / mutation.file).read_text() != original
    assert (ROOT / "tests/vm/stories" / mutation.story.partition("::")[0]).exists()
    assert any(mutation.applies(cell, "all") for cell in CELLS)


def test_some_mutants_are_in_ci() -> None:
    required = [cell for cell in CELLS if cell.required]
    assert sum(mutation.applies(cell, "required") for mutation in MUTATIONS for cell in required) >= 2


def test_every_file_of_the_kernel_tier_is_placed() -> None:
    files = sorted(path.name for path in (ROOT / "tests/kernel").glob("test_*.py"))
    assert sorted(carried.file for carried in TIER) == files, "tests/vm/kernel_tier.py says where each runs, or why not"


def test_cells_have_names_of_their_own() -> None:
    assert len({cell.name for cell in CELLS}) == len(CELLS)
    assert {cell.kernel for cell in CELLS} >= {"5.10", "6.1", "6.12", "7.0", "7.2"}


LISTING = """'http://mirror.example/debian/dists/bookworm/InRelease' mirror.example_debian_dists_bookworm_InRelease 0
'http://other.example/dists/nodistro/InRelease' x 0
'http://mirror.example/security/dists/bookworm-security/InRelease' y 0
"""


def test_mirrors_are_the_machines_own() -> None:
    assert mirrors(LISTING) == ("http://mirror.example/debian", "http://mirror.example/security")


def test_a_machine_without_a_security_suite_guesses_it() -> None:
    assert mirrors(LISTING.splitlines()[0]) == ("http://mirror.example/debian", "http://mirror.example/debian-security")


def test_no_mirror_is_an_error_with_a_hint() -> None:
    with pytest.raises(BuildError, match=r"no Debian mirror.*try: apt-get"):
        mirrors("")


OFFERED = [("linux-image-6.1.0-9-cloud-amd64", "6.1.9-1"), ("linux-image-6.12.9-cloud-amd64", "6.12.9-1"),
           ("linux-image-6.12.115-cloud-amd64", "6.12.115-2"), ("linux-binary-7.3-cloud-amd64", "7.3~rc7-1")]  # fmt: skip


def test_the_newest_of_a_series_by_number_not_by_letters() -> None:
    assert newest_of("6.12", OFFERED) == OFFERED[2]
    assert newest_of("6.1", OFFERED) == OFFERED[0]
    assert newest_of(NEWEST, OFFERED) == OFFERED[3]
    with pytest.raises(BuildError, match=r"kernel 5\.4: none of"):
        newest_of("5.4", OFFERED)


def test_a_version_that_crashes_is_passed_over() -> None:
    offered = [("linux-image-6.1.0-54-cloud-amd64", "6.1.190-1"), ("linux-image-6.1.0-55-cloud-amd64", "6.1.192-1")]
    assert newest_of("6.1", offered) == offered[1]
    assert newest_of("6.1", offered, CRASHING_KERNELS) == offered[0]
    with pytest.raises(BuildError, match=r"kernel 6\.1: none of"):
        newest_of("6.1", offered, {"6.1.190-1", "6.1.192-1"})


def test_a_crash_of_the_guest_kernel_is_told_with_its_place(tmp_path: Path) -> None:
    outcome = Outcome(CELLS[0], 1, "finished", tmp_path, 1.0, 1.0, 1)
    assert outcome.crash() is None, "no console at all"
    (tmp_path / "console").write_text("[    3.6] systemd[1]: Failed to find module 'autofs4'\nVM-JOB-END 9 status=1\n")
    assert outcome.crash() is None, "a test that failed is not a kernel that crashed"
    (tmp_path / "console").write_text(
        "[  192.8] BUG: kernel NULL pointer dereference, address: 0000000000000000\n"
        "[  192.8] Oops: 0000 [#1] PREEMPT SMP NOPTI\n[  192.8] RIP: 0010:ext4_mb_load_buddy_gfp+0xbc/0x380\n"
    )
    said = outcome.crash()
    assert said is not None
    assert said.endswith("NULL pointer dereference, address: 0000000000000000 in ext4_mb_load_buddy_gfp+0xbc/0x380")


def test_a_machine_that_hangs_is_told_from_one_that_is_starved(tmp_path: Path) -> None:
    hears = Listener(tmp_path)
    (tmp_path / "live").write_text(".")
    assert not hears.nothing(10, 5)
    assert not hears.nothing(600, 6)
    assert not hears.nothing(700, 90), "slow beside other work, but working"
    assert hears.nothing(700, 6)
    (tmp_path / "live").write_text("..")
    assert not hears.nothing(701, 6)
