# SPDX-License-Identifier: Apache-2.0
"""Stories run inside a machine of the matrix, never on the machine that runs the tests.

`@pytest.mark.cells(where)` says of which cells a story is told; elsewhere it is not collected: a skip is a failure.
`@pytest.mark.in_ci(cell, ...)` says in which of them CI tells it, where that is not all: every kernel and hierarchy that matters
to it, but not every variant of them.
"""

from __future__ import annotations

import os

import pytest
from tests.vm.cells import WHICH_VARIABLE, Cell, cell_named

_UNDER_SELINUX = ("test_selinux", "test_machine", "test_interfaces")
CELL_VARIABLE = "ZOMBIESCOPE_VM_CELL"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    cell = cell_named(os.environ[CELL_VARIABLE])
    told = {item for item in items if all(mark.args[0](cell) for mark in item.iter_markers("cells"))}
    if cell.selinux:  # the others make their zombies by what a policy is there to forbid
        told = {item for item in told if item.path.stem in _UNDER_SELINUX}
    if os.environ.get(WHICH_VARIABLE) == "required":
        told = {item for item in told if all(cell.name in mark.args for mark in item.iter_markers("in_ci"))}
    config.hook.pytest_deselected(items=[item for item in items if item not in told])
    items[:] = [item for item in items if item in told]


@pytest.fixture(scope="session")
def cell() -> Cell:
    return cell_named(os.environ[CELL_VARIABLE])
