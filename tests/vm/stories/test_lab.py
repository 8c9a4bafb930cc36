# SPDX-License-Identifier: Apache-2.0
"""Story (f): the lab makes on this kernel what it says it made, and leaves nothing behind."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.vm.cells import Cell, Init
from tests.vm.stories.groves import dying, memory_mount, remove, settled, write
from tests.vm.stories.pins import FILES, SHARED
from tests.vm.stories.product import bytes_below, document, zombies_below

EACH = 3
PAGES = ("page-cache", "mapped-file", "tmpfs", "memfd", "shared-anon", "sysv-shm")
REFERENCES = ("dirty-file", "unreaped")
LAB = "zombiescope-lab"


def kinds(cell: Cell) -> tuple[str, ...]:
    swap = ("swap",) if cell.swap_megabytes and not cell.memory_is_v1 else ()
    return PAGES + REFERENCES + swap + (() if cell.memory_is_v1 else ("socket",))


def segments() -> list[str]:
    return Path("/proc/sysvipc/shm").read_text().splitlines()[1:]


def leftovers(cell: Cell) -> list[str]:
    """Everything with the lab's name: cgroups, files, processes, segments."""
    places = [memory_mount(cell), SHARED, FILES, Path("/tmp"), Path("/run")]
    found = [str(place / LAB) for place in places if (place / LAB).exists()]
    found += [str(place) for place in (Path("/var/lib/zombiescope"), Path("/run/zombiescope")) if place.exists()]
    found += [path.read_text() for path in Path("/proc").glob("[0-9]*/comm") if "zombiescope" in path.read_text()]
    return found + segments()


@pytest.mark.in_ci("5.10-v2", "6.1-v2", "6.1-v1", "6.12-v2-numa", "7.2-v2", "6.12-arm64")
def test_makes_what_it_says_and_cleans_up(cell: Cell) -> None:
    made = {
        kind: document("lab", "zombies", "--pin", kind, "--count", str(EACH), "--name", kind) for kind in kinds(cell)
    }
    try:
        assert {kind: answer["counts"]["made"] for kind, answer in made.items()} == dict.fromkeys(made, EACH)
        if not cell.memory_is_v1:
            check_counts(cell)
    finally:
        cleaned = document("lab", "clean")
    assert [run["left"] for run in cleaned["runs"] if run["left"]] == []
    assert leftovers(cell) == []


def swap_device() -> str:
    name = Path("/proc/swaps").read_text().splitlines()[1].split()[0].rpartition("/")[2]
    return Path("/sys/class/block", name, "dev").read_text().strip()


@pytest.fixture
def slow_writer(cell: Cell) -> Iterator[Path]:
    """A cgroup whose pages reach the swap device at half a megabyte a second."""
    root = memory_mount(cell)
    write(root / "cgroup.subtree_control", "+io")
    folder = root / "story-slow"
    folder.mkdir()
    write(folder / "io.max", f"{swap_device()} wbps=524288")
    try:
        yield folder
    finally:
        remove(folder)


@pytest.mark.cells.with_args(lambda cell: cell.swap_megabytes and not cell.memory_is_v1)
@pytest.mark.in_ci("6.1-v2")
def test_cleans_up_beside_a_slow_swap_device(cell: Cell, slow_writer: Path) -> None:
    """Freed entries wait in a cache of each CPU until others push them out, which entries still being written do not."""
    made = document("lab", "zombies", "--pin", "swap", "--count", str(EACH), "--name", "slow")
    assert made["counts"]["seen_by_kernel"] == EACH
    enter = ("sh", "-c", f'echo $$ >{slow_writer}/cgroup.procs; exec "$0" "$@"')
    cleaned = document("lab", "clean", prefix=enter)
    assert [run["left"] for run in cleaned["runs"]] == [[]]
    assert leftovers(cell) == []


def handed_down(cell: Cell) -> bool:
    return "memory" in (memory_mount(cell) / "cgroup.subtree_control").read_text().split()


@pytest.mark.cells.with_args(lambda cell: cell.init is Init.MINI and not cell.memory_is_v1)
@pytest.mark.in_ci("5.10-v2")
@pytest.mark.parametrize("is_needed", [False, True])
def test_what_it_turned_on_at_the_root_it_turns_off_unless_somebody_needs_it(cell: Cell, is_needed: bool) -> None:
    """Only where nobody but us has cgroups; systemd has handed memory down before anybody asks."""
    root = memory_mount(cell)
    write(root / "cgroup.subtree_control", "-memory")
    try:
        document("lab", "zombies", "--pin", "unreaped", "--count", "1", "--name", "one")
        document("lab", "zombies", "--pin", "unreaped", "--count", "1", "--name", "two")
        assert handed_down(cell)
        assert document("lab", "clean", "--name", "one")["note"] is None
        assert handed_down(cell), "the other run stands on it"
        if is_needed:
            (root / "neighbour").mkdir()
            write(root / "neighbour" / "memory.high", "1G")
        note = document("lab", "clean", "--name", "two")["note"]
        assert handed_down(cell) == is_needed
        assert (note is not None and "/neighbour has come to use it" in note) == is_needed
        if is_needed:
            remove(root / "neighbour")
            assert document("lab", "clean")["note"] is None
            assert not handed_down(cell)
        assert leftovers(cell) == []
    finally:
        document("lab", "clean")
        write(root / "cgroup.subtree_control", "+memory")


def check_counts(cell: Cell) -> None:
    expected = {kind: 0 if cell.reparents and kind in PAGES else EACH for kind in kinds(cell)}
    top = memory_mount(cell) / LAB
    assert settled(lambda: {kind: dying(top / kind) for kind in expected}, expected) == expected, (
        "the kernel's own count"
    )
    answer = document("scan")
    assert {kind: zombies_below(answer, f"/{LAB}/{kind}") for kind in expected} == expected
    if "swap" in expected:
        assert bytes_below(answer, f"/{LAB}/swap")["swap"] == EACH * mmap.PAGESIZE, "none of the lab's own memory"
