# SPDX-License-Identifier: Apache-2.0
"""Stories run inside a machine of the matrix, never on the machine that runs the tests.

`@pytest.mark.cells(where)` says of which cells a story is told; elsewhere it is not collected: a skip is a failure.
"""

from __future__ import annotations

import os

import pytest
from tests.vm.cells import Cell, cell_named

CELL_VARIABLE = "ZOMBIESCOPE_VM_CELL"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    cell = cell_named(os.environ[CELL_VARIABLE])
    told = {item for item in items if all(mark.args[0](cell) for mark in item.iter_markers("cells"))}
    config.hook.pytest_deselected(items=[item for item in items if item not in told])
    items[:] = [item for item in items if item in told]


@pytest.fixture(scope="session")
def cell() -> Cell:
    return cell_named(os.environ[CELL_VARIABLE])
