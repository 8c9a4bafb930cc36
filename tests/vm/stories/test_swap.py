# SPDX-License-Identifier: Apache-2.0
"""Story (c): what was swapped out while its cgroup lived keeps it after death, on every kernel, and is seen as swap."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.vm.cells import Cell, Hierarchy
from tests.vm.stories.groves import Grove, dying, settled
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
    assert held["swap"] == EACH * 4096
    assert held["shmem"] == 0, "paged out: it is not in memory any more"
    examined = document("autopsy", "--limit", "0")
    if examined["tier"] not in {"bpf", "kcore"}:
        return  # 5.10: the story of the census says what must be told then

    def pinned() -> list[tuple[list[str], str]]:
        dead = [each for each in document("autopsy", "--limit", "0")["zombies"] if each["path"].startswith(grove.path)]
        return [([pin["kind"] for pin in each["pins"]], each["freed_by"][0]["action"]) for each in dead]

    # An entry that was just freed waits in its CPU's cache of swap slots, and is a reference without a name until then.
    wanted = [(["swap"], "swap_in")] * EACH
    assert settled(pinned, wanted, seconds=60) == wanted
