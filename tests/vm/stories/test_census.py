# SPDX-License-Identifier: Apache-2.0
"""Story (a): zombies of each kind of pin, below the right parent, exactly, by the truth of this kernel."""

from __future__ import annotations

from collections.abc import Iterator
from mmap import PAGESIZE
from pathlib import Path

import pytest
from tests.vm.cells import Cell, Hierarchy
from tests.vm.stories.groves import Grove, dying, settled, write
from tests.vm.stories.pins import PINS, Pin
from tests.vm.stories.product import bytes_below, document, zombies_below

EACH = 3


@pytest.fixture(scope="module")
def groves(cell: Cell) -> Iterator[dict[str, Grove]]:
    """One parent for each kind with its dead children, and one whose children died without any pin."""
    write(Path("/proc/sys/vm/dirty_writeback_centisecs"), "0")  # what is dirty at death stays so
    made = {pin.kind: Grove(cell, f"story-{pin.kind}") for pin in PINS}
    made["none"] = Grove(cell, "story-none")
    try:
        for number in range(EACH):
            for pin in PINS:
                made[pin.kind].bury(f"dead{number}", pin.bury)
            made["none"].bury(f"dead{number}", lambda grove, child: None)
        yield made
    finally:
        for grove in made.values():
            grove.close()
        write(Path("/proc/sys/vm/dirty_writeback_centisecs"), "500")


@pytest.mark.cells.with_args(lambda cell: cell.hierarchy is Hierarchy.V2)
def test_every_kind_below_its_parent(cell: Cell, groves: dict[str, Grove]) -> None:
    expected = {pin.kind: EACH if pin.keeps(cell) else 0 for pin in PINS} | {"none": 0}
    kernel = settled(lambda: {kind: dying(grove.folder) for kind, grove in groves.items()}, expected)
    answer = document("scan")
    seen = {kind: zombies_below(answer, grove.path) for kind, grove in groves.items()}
    assert kernel == expected, "the kernel itself keeps others than we think"
    assert seen == expected
    assert answer["memcg"]["hierarchy"] == "v2"
    assert sum(parent["zombies"] for parent in answer["parents"]) == answer["memcg"]["zombies"]
    assert answer["memcg"]["counted"] - answer["memcg"]["live"] == answer["memcg"]["zombies"]
    for kind in ("tmpfs", "memfd", "shared_anon", "sysv_shm"):
        if pin_keeps(cell, kind):
            check_shared_memory(cell, bytes_below(answer, groves[kind].path))


@pytest.mark.cells.with_args(lambda cell: cell.hierarchy is Hierarchy.V2)
def test_autopsy_calls_every_kind_by_its_name(cell: Cell, groves: dict[str, Grove]) -> None:
    answer = document("autopsy", "--limit", "0")
    # The walk needs bpf_loop, which came with 5.17: before it a lower tier answers and says why.
    assert (answer["tier"] == "bpf") == (cell.kernel != "5.10")
    if answer["tier"] not in {"bpf", "kcore"}:
        assert any("PROG_LOAD" in gap["reason"] for gap in answer["gaps"])
        return
    kinds: dict[str, list[set[str]]] = {kind: [] for kind in groves}
    for zombie in answer["zombies"]:
        kind = zombie["path"].split("/")[1].removeprefix("story-")
        if kind in kinds:
            kinds[kind].append({pin["kind"] for pin in zombie["pins"]})
    found = {kind: len(dead) for kind, dead in kinds.items() if dead}
    assert found == {pin.kind: EACH for pin in PINS if pin.keeps(cell)}
    for pin in PINS:
        for names in kinds[pin.kind]:
            assert names & allowed_names(pin), (pin.kind, names)
    assert answer["reconciliation"]["walk"] == answer["reconciliation"]["counted_minus_live"]


def allowed_names(pin: Pin) -> set[str]:
    """What holds a bare reference leaves no mark in the dead group and may be called `other`; a file that was dirty at death
    may have been written since, and its page is still there."""
    return (
        {pin.kind} | (set() if pin.has_a_mark else {"other"}) | ({"page_cache"} if pin.kind == "writeback" else set())
    )


def pin_keeps(cell: Cell, kind: str) -> bool:
    return any(pin.keeps(cell) for pin in PINS if pin.kind == kind)


def check_shared_memory(cell: Cell, held: dict[str, int]) -> None:
    """A page each, to the byte; 5.10 may not have added it up to the parent yet, but never has too much."""
    if cell.kernel == "5.10":
        assert 0 <= held["shmem"] <= EACH * PAGESIZE
    else:
        assert held["shmem"] == EACH * PAGESIZE
    assert held["anon"] == held["unevictable"] == 0
