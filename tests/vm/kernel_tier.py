# SPDX-License-Identifier: Apache-2.0
"""Which files of the kernel tier run inside which machines, and why the others do not. A new file takes a line here.

Emulation is ten to forty times slower, so CI carries little of the tier; `make test-vm-all` carries what can be carried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.vm.cells import Cell


@dataclass(frozen=True, slots=True)
class Carried:
    file: str
    where: Callable[[Cell], object]
    reason: str
    """Why it does not run elsewhere."""


def _nowhere(cell: Cell) -> bool:
    return False


def _has_walk_and_page_pins(cell: Cell) -> bool:
    """Its zombies are pinned by pages, which keep none from 7.1 on, and the walk needs bpf_loop, which 5.10 has not."""
    return not cell.reparents and cell.kernel != "5.10"


def _not_in_ci(cell: Cell) -> bool:
    return _has_walk_and_page_pins(cell) and not cell.required


TIER = (
    Carried(
        "test_exact_kinds.py", _has_walk_and_page_pins, "its zombies are pinned by pages and found by the BPF walk"
    ),
    Carried("test_lab_readers.py", _not_in_ci, "minutes under emulation; a story has every kind in CI"),
    Carried("test_holders.py", _not_in_ci, "minutes under emulation"),
    Carried("test_page_pins.py", _not_in_ci, "minutes under emulation"),
    Carried("test_page_free_pins.py", _not_in_ci, "minutes under emulation"),
    Carried("test_lab_pages.py", _not_in_ci, "minutes under emulation"),
    Carried("test_scan_truth.py", _nowhere, "twenty thousand zombies: hours under emulation; a story has the truth"),
    Carried("test_exact_blob.py", _nowhere, "compares compilers' output: the same on every kernel"),
    Carried("test_exact_survival.py", _nowhere, "sixty thousand zombies: hours under emulation"),
    Carried("test_lab_clean.py", _nowhere, "a thousand processes: an hour under emulation; a story has the cleaning"),
    Carried("test_lab_zombies.py", _nowhere, "thousands of zombies: an hour under emulation; a story has every kind"),
)


def selection(cell: Cell) -> list[str]:
    """The arguments for pytest; none where no file is carried."""
    return [f"tests/kernel/{carried.file}" for carried in TIER if carried.where(cell)]
