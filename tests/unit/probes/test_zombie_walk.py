# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from zombiescope.facts.gap import Gap
from zombiescope.host.live import TreeHost
from zombiescope.probes.readers.zombie_walk import (
    count_nodes,
    read_former_paths,
    read_zombie_serials,
    read_zombie_walk,
)


@pytest.mark.parametrize(
    ("possible", "count"), [(b"0\n", 1), (b"0-3\n", 4), (b"0-1,4\n", 5), (b"", 1), (b"garbage", 1), (b"0-\n", 1)]
)
def test_nodes_are_counted_by_the_highest(possible: bytes, count: int) -> None:
    assert count_nodes(possible) == count


def test_a_folder_has_no_kernel_to_walk(tmp_path: Path) -> None:
    found = read_zombie_walk(TreeHost(bytes(tmp_path)))
    assert isinstance(found, Gap)
    assert found.fact == "zombies" and found.reason and found.hint
    assert read_zombie_serials(TreeHost(bytes(tmp_path))) == found
    assert read_former_paths(TreeHost(bytes(tmp_path))) == found
