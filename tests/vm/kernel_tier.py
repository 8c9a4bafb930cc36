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


def _everywhere(cell: Cell) -> bool:
    return True


def _page_pins(cell: Cell) -> bool:
    """Its zombies are pinned by pages, which keep none from 7.1 on; and CI has a story of every kind."""
    return not cell.reparents and not cell.required


TIER = (
    Carried("test_exact_kinds.py", _everywhere, ""),
    Carried("test_lab_readers.py", _page_pins, "pinned by pages; minutes under emulation"),
    Carried("test_holders.py", _page_pins, "pinned by pages; minutes under emulation"),
    Carried("test_page_pins.py", lambda cell: _page_pins(cell) and cell.memory_is_v1, "of the tier that v1 needs"),
    Carried("test_page_free_pins.py", lambda cell: _page_pins(cell) and not cell.memory_is_v1, "wants a v2 mount"),
    Carried("test_lab_pages.py", _page_pins, "pinned by pages; minutes under emulation"),
    Carried("test_ledger.py", _page_pins, "pinned by pages; minutes under emulation"),
    Carried("test_kernel_log.py", lambda cell: not cell.required, "the log's format is one; the full matrix reads it"),
    Carried("test_history_kill.py", _nowhere, "of files alone: the same on every kernel"),
    Carried("test_scan_truth.py", _nowhere, "thousands of zombies: an hour under emulation; a story has the truth"),
    Carried("test_exact_blob.py", _nowhere, "compares compilers' output: the same on every kernel"),
    Carried("test_exact_survival.py", _nowhere, "sixty thousand zombies: hours under emulation"),
    Carried("test_lab_clean.py", _nowhere, "a thousand processes: an hour under emulation; a story has the cleaning"),
    Carried("test_profile_record.py", _nowhere, "needs numpy, which the small images do not have"),
    Carried("test_lab_zombies.py", _nowhere, "thousands of zombies: an hour under emulation; a story has every kind"),
)


def selection(cell: Cell) -> list[str]:
    """The arguments for pytest; none where no file is carried."""
    return [f"tests/kernel/{carried.file}" for carried in TIER if carried.where(cell)]
