# SPDX-License-Identifier: Apache-2.0
"""Ground truth of the whole: every kind of the lab at once, by every tier, under every power it may have.

Witnesses that are not ours: the kernel's events of deaths and releases (which zombies there are), memory.stat of the lab's own
subtree (how many pages they hold), and the lab's account (which file or segment pins each).
"""

from __future__ import annotations

import errno
import io
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from tests.kernel.command import IN_MACHINE
from tests.kernel.confined import CAP_BPF, CAP_PERFMON, answer_of_child, keep_all_but, keep_only, refuse_bpf
from tests.kernel.exact_tiers import HAS_BPF, HAS_KCORE, HAS_SWAP, IS_V2, PAGES_PIN, told_if
from tests.kernel.idle_pages import drops_idle_pages
from tests.kernel.lab_driver import LabDriver, held_bytes
from tests.kernel.test_lab_zombies import FILE_KINDS, SHMEM_KINDS
from tests.kernel.truth_table import SEEN_AS
from tests.kernel.witness import Witness

from zombiescope.cli.main import main
from zombiescope.facts.page_pins import NAMED_KINDS
from zombiescope.lab.cleaning import charge_elsewhere
from zombiescope.lab.hierarchy import MemoryHierarchy
from zombiescope.lab.pins.files import is_resident
from zombiescope.lab.runs import KINDS

pytestmark = pytest.mark.kernel
EACH = 3
CAP_SYS_RAWIO = 17
PAGE = os.sysconf("SC_PAGE_SIZE")
TRUE_FIGURES = HAS_BPF
"""Kernels before 5.16 leave small figures of a parent out of its memory.stat; the walk by BPF came with 5.17."""
Truths = dict[str, dict[str, Any]]


def chosen_kinds() -> list[str]:
    """The dirty files last: making other kinds of files writes what is dirty, and on some kernels lets its group go."""
    chosen = [kind for kind in KINDS if kind != "visible" and (kind != "swap" or (HAS_SWAP and IS_V2))]
    return sorted(chosen, key=lambda kind: kind == "dirty-file")


def keeps(kind: str) -> bool:
    """Where pages of the dead are handed on, only other pins keep a group."""
    return PAGES_PIN or kind not in FILE_KINDS | SHMEM_KINDS or kind == "dirty-file"


@pytest.fixture(scope="module")
def lab(hierarchy: MemoryHierarchy) -> Iterator[LabDriver]:
    driver = LabDriver(hierarchy)
    try:
        yield driver
    finally:
        driver.clean_all()


@pytest.fixture(scope="module")
def truths(lab: LabDriver, witness: Witness) -> Iterator[Truths]:
    """Made once: every tier and every power looks at the same zombies."""
    witness.forget()
    with nothing_written_back():
        made = {kind: lab.zombies(kind, EACH) for kind in chosen_kinds()}
        witness.wait_for_ordinary_deaths()
        if not PAGES_PIN:
            let_stocks_go(lab, witness, made)
        main(["autopsy", "--limit", "1", "--json"])  # a user without powers cannot even read our modules
        yield made


def let_stocks_go(lab: LabDriver, witness: Witness, made: Truths) -> None:
    """Where no page keeps a group, a CPU's stock of charges still remembers the last few that died."""
    charge_elsewhere(lab.hierarchy, "/zombiescope-lab")
    for kind, truth in made.items():
        if not keeps(kind):
            witness.wait_for_release({each["id"] for each in truth["made"]}, truth["subtree"])


@contextmanager
def nothing_written_back() -> Iterator[None]:
    """What is dirty at death stays so. In a machine of ours alone: the switch of a shared host is not ours."""
    switch = Path("/proc/sys/vm/dirty_writeback_centisecs")
    before = switch.read_text()
    if IN_MACHINE:
        switch.write_text("0")
    try:
        yield
    finally:
        if IN_MACHINE:
            switch.write_text(before)


def autopsy(confine: Callable[[], object] = lambda: None) -> dict[str, Any]:
    """The command's document, from a child with the powers that `confine` leaves it."""

    def work() -> Any:
        confine()
        with redirect_stdout(io.StringIO()) as said:
            status = main(["autopsy", "--limit", "0", "--json"])
        assert status == 0, said.getvalue()
        return json.loads(said.getvalue())

    answer = answer_of_child(work)
    assert isinstance(answer, dict)
    return answer


def made_by(truths: Truths) -> Iterator[tuple[str, dict[str, Any]]]:
    for kind, truth in truths.items():
        yield from ((kind, made) for made in truth["made"])


def check_zombies(truths: Truths, answer: dict[str, Any], witness: Witness) -> None:
    """The zombies below our subtrees are those that died and were not released, each by its kind and its file."""
    found = {zombie["id"]: zombie for zombie in answer["zombies"]}
    for kind, truth in truths.items():
        alive = witness.ids("rmdir", truth["subtree"]) - witness.ids("release", truth["subtree"])
        below = {number for number, zombie in found.items() if zombie["path"].startswith(truth["subtree"] + "/")}
        assert below == alive, kind
        assert keeps(kind) or not alive, kind
    for kind, made in made_by(truths):
        if made["id"] in found:
            check_pin(kind, made, found[made["id"]])
        else:
            assert not keeps(kind) or is_dropped(made) or is_written(kind), (kind, made)


def is_written(kind: str) -> bool:
    """Dirty at death and written since: where pages are handed on, that lets the group go."""
    return kind == "dirty-file" and not PAGES_PIN and not IN_MACHINE


def is_dropped(made: dict[str, Any]) -> bool:
    return drops_idle_pages() and made["pin"] in FILE_KINDS and not is_resident(made["file"])


def check_pin(kind: str, made: dict[str, Any], zombie: dict[str, Any]) -> None:
    assert zombie["path"] == made["path"]
    kinds = {pin["kind"] for pin in zombie["pins"]}
    if kind == "dirty-file":
        assert kinds <= {"page_cache", "writeback"} and kinds, kinds
    elif made["pin"] in ("socket", "unreaped"):
        assert kinds <= {SEEN_AS[made["pin"]], "other"} and kinds, kinds
    else:
        assert kinds == {SEEN_AS[made["pin"]]}, (kind, zombie)
    if made["file"] is not None and kinds & {"page_cache", "tmpfs", "memfd", "sysv_shm", "writeback"}:
        names = {pin["path_in_fs"] for pin in zombie["pins"]}
        assert any(made["file"].endswith(name) for name in names if name), (made, names)
    pages = zombie["pages"]
    if kind in FILE_KINDS | SHMEM_KINDS and PAGES_PIN:
        assert pages["file"] + pages["shmem"] == made["bytes"] // PAGE, zombie


def check_pages(lab: LabDriver, truths: Truths, answer: dict[str, Any], witness: Witness) -> None:
    """Pages on the lists of our zombies are, to the unit, what memory.stat says that no live cgroup of ours owns."""
    for truth in truths.values():
        ours = [zombie for zombie in answer["zombies"] if zombie["path"].startswith(truth["subtree"] + "/")]
        walked = sum(zombie["pages"][name] for zombie in ours for name in ("file", "shmem", "anon", "unevictable"))

        def agrees(subtree: str = truth["subtree"], walked: int = walked) -> bool:
            held = held_bytes(lab.hierarchy, subtree)  # v2 and v1 count shared memory as file, too
            return (held["file"] + held["anon"]) == walked * PAGE

        witness.wait_until(agrees)


def check(lab: LabDriver, witness: Witness, truths: Truths, answer: dict[str, Any], tier: str) -> None:
    assert answer["tier"] == tier
    check_zombies(truths, answer, witness)
    if IN_MACHINE:  # nobody else is on this kernel: its totals are ours
        told = answer["reconciliation"]
        assert told["walk"] == told["counted_minus_live"], told
    if PAGES_PIN and TRUE_FIGURES:
        check_pages(lab, truths, answer, witness)


@told_if(HAS_BPF)
def test_every_zombie_its_pin_and_file_with_bpf(lab: LabDriver, witness: Witness, truths: Truths) -> None:
    check(lab, witness, truths, autopsy(), "bpf")


@told_if(HAS_KCORE)
def test_every_zombie_its_pin_and_file_with_bpf_refused(lab: LabDriver, witness: Witness, truths: Truths) -> None:
    answer = autopsy(lambda: refuse_bpf(errno.EPERM))
    check(lab, witness, truths, answer, "kcore")
    assert any("EPERM" in gap["reason"] for gap in answer["gaps"] if gap["fact"] == "tier")


@told_if(HAS_BPF)
def test_every_zombie_for_an_ordinary_user_with_two_capabilities(
    lab: LabDriver, witness: Witness, truths: Truths
) -> None:
    check(lab, witness, truths, autopsy(lambda: keep_only(CAP_BPF, CAP_PERFMON)), "bpf")


@told_if(PAGES_PIN)
def test_what_the_pages_tier_names_it_names_right(truths: Truths) -> None:
    """With BPF refused and the kernel's memory out of reach: no zombie by its id, but files by kind, and no kind made up."""

    def confine() -> None:
        keep_all_but(CAP_SYS_RAWIO)
        refuse_bpf(errno.EPERM)

    answer = autopsy(confine)
    assert answer["tier"] == "pages"
    assert answer["zombies"] == [] and "zombies" in {gap["fact"] for gap in answer["gaps"]}
    for kind, truth in truths.items():
        files = [file for file in answer["pinned_files"] if file["parent"] == truth["subtree"]]
        seen_as = "tmpfs" if kind == "child" else SEEN_AS[kind]
        is_named = seen_as in NAMED_KINDS and kind not in ("page-cache", "dirty-file")
        if kind == "sysv-shm" and not TRUE_FIGURES:
            continue  # segments nobody has attached are looked at where memory.stat tells of pages no file explains
        kinds, held = {file["kind"] for file in files}, sum(file["pages"] for file in files) * PAGE
        if not (TRUE_FIGURES or IS_V2):  # what a process has mapped cannot be told from its parent's own there
            assert kinds <= ({seen_as} if is_named else set()), kind
            assert held <= truth["counts"]["bytes"], kind
            continue
        assert kinds == ({seen_as} if is_named else set()), kind
        assert held == (truth["counts"]["bytes"] if is_named else 0), kind
