# SPDX-License-Identifier: Apache-2.0
"""Which files of the kernel tier run inside which machines, and why the others do not. A new file takes a line here.

Emulation is ten to forty times slower, so each file takes a smaller size there (`IN_MACHINE`). CI carries each into a few
machines only; `make test-vm-all` carries it wherever it can be told, but what is of the kernel and not of the variant into one
machine of each kernel and memory hierarchy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.vm.cells import CELLS, Cell


@dataclass(frozen=True, slots=True)
class Carried:
    file: str
    where: Callable[[Cell], object]
    reason: str
    """Why it does not run elsewhere."""
    in_ci: tuple[str, ...] = ()
    """The required cells that carry it in CI; all of them when none is named, `where` allowing."""
    in_variants: bool = False
    """Whether it is also told in further machines of the same kernel and memory hierarchy."""


def _nowhere(cell: Cell) -> bool:
    return False


def _everywhere(cell: Cell) -> bool:
    return True


def _page_pins(cell: Cell) -> bool:
    return not cell.reparents


def _true_figures(cell: Cell) -> bool:
    return cell.kernel != "5.10"


def _true_page_figures(cell: Cell) -> bool:
    return _page_pins(cell) and _true_figures(cell)


def _decides_pages(cell: Cell) -> bool:
    return _page_pins(cell) and (_true_figures(cell) or not cell.memory_is_v1)


def _has_bpf(cell: Cell) -> bool:
    return cell.kernel != "5.10"


_NOT_IN_CI = ("",)
"""Only where everything runs: CI must end in time."""
_PAGES = "its zombies are pinned by pages, which keep none from 7.1 on"
_FIGURES = "5.10 leaves small figures of a parent out of memory.stat, so bytes cannot be compared"
_UNDECIDED = "5.10 on v1 cannot tell a few pages of a parent from its zombies'"

TIER = (
    Carried(
        "test_exact_kinds.py",
        _everywhere,
        "",
        ("5.10-v2", "6.1-v1", "6.12-v2-numa", "7.2-v2", "6.12-arm64"),
        in_variants=True,
    ),
    Carried("test_exact_truth.py", _everywhere, "", ("5.10-v2", "6.12-v2-numa", "6.12-arm64"), in_variants=True),
    Carried("test_exact_survival.py", _everywhere, "", _NOT_IN_CI),
    Carried("test_holders.py", _has_bpf, "who holds what no page explains is found with BPF", ("6.12-arm64",), True),
    Carried("test_lab_readers.py", _true_page_figures, f"{_PAGES}; {_FIGURES}", _NOT_IN_CI),
    Carried("test_lab_pages.py", _true_page_figures, f"{_PAGES}; {_FIGURES}", ("6.12-arm64",), True),
    Carried("test_scan_truth.py", _true_page_figures, f"{_PAGES}; {_FIGURES}", _NOT_IN_CI),
    Carried("test_scan_every_kind.py", _true_page_figures, f"{_PAGES}; {_FIGURES}", _NOT_IN_CI),
    Carried("test_lab_zombies.py", _true_figures, _FIGURES, _NOT_IN_CI),
    Carried("test_lab_clean.py", _everywhere, "", _NOT_IN_CI),
    Carried(
        "test_ledger.py",
        lambda cell: _page_pins(cell) and _has_bpf(cell),
        f"{_PAGES}; no BPF on 5.10",
        ("6.1-v1", "6.12-arm64"),
    ),
    Carried("test_page_pins.py", _decides_pages, f"{_PAGES}; {_UNDECIDED}", ("6.1-v1", "6.12-arm64")),
    Carried("test_page_free_pins.py", lambda cell: not cell.memory_is_v1, "wants a v2 mount", ("7.2-v2",)),
    Carried("test_self_check.py", _everywhere, "", _NOT_IN_CI),
    Carried("test_kernel_log.py", _everywhere, "", ("5.10-v2",)),
    Carried(
        "test_reap.py", lambda cell: _page_pins(cell) and _has_bpf(cell), f"{_PAGES}; 5.10's walk is slow", _NOT_IN_CI
    ),
    Carried(
        "test_poll_latency.py", _nowhere, "as test_starvation.py; each kernel's own is told by stories/test_polls.py"
    ),
    Carried("test_starvation.py", _nowhere, "holds a core against the clock: emulation has another one"),
    Carried(
        "test_pressure.py",
        _nowhere,
        "limits of cpu and memory on one hierarchy each: the files differ by hierarchy alone",
    ),
    Carried("test_reclaim_walk.py", _nowhere, "thousands of zombies: minutes under emulation"),
    Carried(
        "test_remedies.py",
        _nowhere,
        "stands in for systemd; a story applies a whole plan under a real one, on v1 and v2",
    ),
    Carried("test_incident.py", _nowhere, "minutes under emulation; a story plays it there with a real unit, on v2"),
    Carried("test_history_kill.py", _nowhere, "of files alone: the same on every kernel"),
    Carried("test_exact_blob.py", _nowhere, "compares compilers' output: the same on every kernel"),
    Carried("test_cores.py", _nowhere, "holds a core in real time: emulation has no time of its own"),
    Carried("test_perf_captures.py", _nowhere, "the machines have no perf; the reader is the same on every kernel"),
    Carried("test_profile_record.py", _nowhere, "needs numpy, which the small images do not have"),
)


def selection(cell: Cell, which: str) -> list[str]:
    """The arguments for pytest: of CI (`required`) or of all; none where no file is carried."""
    return [f"tests/kernel/{carried.file}" for carried in TIER if is_carried(carried, cell, which)]


def is_carried(carried: Carried, cell: Cell, which: str) -> bool:
    if cell.selinux:
        return False  # its makers of zombies do what a policy is there to forbid; a story tells of the product
    if which == "required":
        return bool(carried.where(cell)) and (not carried.in_ci or cell.name in carried.in_ci)
    return bool(carried.where(cell)) and (
        carried.in_variants or _is_first_of_its_kind(cell) or cell.name in carried.in_ci
    )


def _is_first_of_its_kind(cell: Cell) -> bool:
    kind = (cell.kernel_part, cell.memory_is_v1)
    return cell.name == next(each.name for each in CELLS if (each.kernel_part, each.memory_is_v1) == kind)
