# SPDX-License-Identifier: Apache-2.0
"""Every kind the lab can make, at 1, 50 and 2,000: `scan` tells the lab's truth, zombies and bytes, to the unit.

All kinds stand side by side, each in a subtree of its own, so one scan answers for all. Odd sizes with ZOMBIESCOPE_ALL_SIZES=1;
`bench/bench_lab_truth.py` prints the table.
"""

from __future__ import annotations

import os
import warnings

import pytest
from tests.kernel.command import IN_MACHINE
from tests.kernel.lab_driver import LabDriver
from tests.kernel.truth_table import kinds_of_this_host, make_and_scan

SIZES = [1, 7] if IN_MACHINE else [1, 50, 2000]  # emulation is ten to forty times slower
ODD_SIZES = [7, 333, 3001] if os.environ.get("ZOMBIESCOPE_ALL_SIZES") else []


@pytest.mark.kernel
@pytest.mark.parametrize("count", [*SIZES, *ODD_SIZES])
def test_scan_tells_the_labs_truth_of_every_kind(lab: LabDriver, count: int) -> None:
    kinds = kinds_of_this_host()
    table = make_and_scan(lab, kinds, count)
    assert table.disagreeing == []
    assert [row.kind for row in table.rows] == list(kinds)
    made = sum(row.zombies for row in table.rows)
    assert made >= (len(kinds) - 1) * count * 19 // 20  # all but visible; a host may drop a few clean pages
    assert table.total >= made
    assert min(table.live, table.empty_directories) >= count  # the directories that `visible` left
    if table.total != table.by_parent:
        warnings.warn(
            f"others made zombies: the total is {table.total}, the rows add up to {table.by_parent}", stacklevel=1
        )
