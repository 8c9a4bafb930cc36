# SPDX-License-Identifier: Apache-2.0
"""Which tests of the kernel tier run inside a machine. All of them, but for those named here with the reason."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.vm.cells import Cell
from tests.vm.recipe import REPOSITORY


@dataclass(frozen=True, slots=True)
class LeftOut:
    tests: tuple[str, ...]
    reason: str
    where: Callable[[Cell], object] = lambda cell: True


_PAGE_KINDS = ("page-cache", "mapped-file", "tmpfs", "memfd", "shared-anon", "sysv-shm", "child")

LEFT_OUT = (
    LeftOut(
        ("test_exact_blob.py",), "compares compilers' output: the same on every kernel, and there is no compiler inside"
    ),
    LeftOut(
        (
            "test_exact_survival.py::test_sixty_thousand",
            "test_exact_survival.py::test_births_and_releases_during_walks",
            "test_exact_survival.py::test_a_tree_as_deep_as_paths_go",
            "test_lab_zombies.py::test_two_thousand",
            "test_lab_zombies.py::test_truth_is_the_kernels",
            "test_lab_clean.py",
        ),
        "many processes or many zombies: minutes under emulation; a story has every kind and the cleaning of this kernel",
    ),
    LeftOut(
        ("test_exact_kinds.py", "test_exact_survival.py", "test_lab_readers.py", "test_lab_zombies.py"),
        "made with pages, which keep no dead group on this kernel; the stories have what does",
        lambda cell: cell.reparents,
    ),
)


def selection(cell: Cell) -> list[str]:
    """The arguments for pytest."""
    if not (REPOSITORY / "tests/kernel").exists():
        return []
    return ["tests/kernel", *_deselected(cell)]


def _deselected(cell: Cell) -> Iterator[str]:
    for row in LEFT_OUT:
        if row.where(cell):
            for name in row.tests:
                yield f"--{'deselect' if '::' in name else 'ignore'}=tests/kernel/{name}"
