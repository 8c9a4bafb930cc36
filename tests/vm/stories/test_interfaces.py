# SPDX-License-Identifier: Apache-2.0
"""What docs/reference/kernels.md says of this cell is what is seen here. The answers go home in /out/interfaces.json."""

from __future__ import annotations

import json
from pathlib import Path

from tests.vm.cells import Cell
from tests.vm.stories.interfaces import write_down

PAGE = Path(__file__).resolve().parents[3] / "docs/reference/kernels.json"


def test_the_page_of_kernels_is_true(cell: Cell) -> None:
    seen = write_down(cell)
    told = json.loads(PAGE.read_text())
    assert told.get(cell.name) == seen, "remake it: tools/record_machines.py, then tools/write_kernels_page.py"
