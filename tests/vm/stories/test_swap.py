# SPDX-License-Identifier: Apache-2.0
"""Story (c): what was swapped out while its cgroup lived keeps it after death, on every kernel, and is seen as swap."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from mmap import PAGESIZE

import pytest
from tests.vm.cells import Cell, Hierarchy
from tests.vm.stories.groves import Grove, dying, settled, write
from tests.vm.stories.pins import SWAP
from tests.vm.stories.product import bytes_below, document, zombies_below

EACH = 4

pytestmark = pytest.mark.cells.with_args(lambda cell: cell.swap_megabytes and cell.hierarchy is Hierarchy.V2)


@pytest.fixture
def grove(cell: Cell) -> Iterator[Grove]:
    grove = Grove(cell, "story-swap")
    try:
        for number in range(EACH):
            grove.bury(f"dead{number}", SWAP.bury)
        yield grove
    finally:
        grove.close()


def test_swap_is_seen_as_swap(grove: Grove) -> None:
    assert settled(lambda: dying(grove.folder), EACH) == EACH, "the kernel's own count"
    answer = document("scan")
    assert zombies_below(answer, grove.path) == EACH
    held = bytes_below(answer, grove.path)
    assert held["swap"] == EACH * PAGESIZE
    assert held["shmem"] == 0, "paged out: it is not in memory any more"
    examined = document("autopsy", "--limit", "0")
    if examined["tier"] not in {"bpf", "kcore"}:
        return  # 5.10: the story of the census says what must be told then

    def pinned() -> list[tuple[list[str], list[str]]]:
        dead = [each for each in document("autopsy", "--limit", "0")["zombies"] if each["path"].startswith(grove.path)]
        kinds = [sorted({pin["kind"] for pin in each["pins"]}) for each in dead]
        return [(kind, [way["action"] for way in each["freed_by"]]) for kind, each in zip(kinds, dead, strict=True)]

    # What was swapped out may still be in memory, in the swap cache: another reference, which is swap, too, and goes by reclaim.
    wanted = (["swap"], ["swap_in"])
    assert all(
        each in (wanted, (["swap"], ["reclaim_parent", "swap_in"])) for each in settled(pinned, [wanted] * EACH, 5)
    )
    if (lever := grove.folder / "memory.reclaim").exists():
        with suppress(BlockingIOError):  # it wants more than there is
            write(lever, "1M")
        assert settled(pinned, [wanted] * EACH) == [wanted] * EACH
