# SPDX-License-Identifier: Apache-2.0
"""The machine is the one the cell describes: otherwise every other story would be told of something else."""

from __future__ import annotations

import os
from pathlib import Path

from tests.vm.cells import Cell, Hierarchy, Init

CGROUPS = Path("/sys/fs/cgroup")


def test_kernel_and_init(cell: Cell) -> None:
    assert os.uname().release.startswith(cell.kernel + ".")
    assert Path("/proc/1/comm").read_text().strip() == ("systemd" if cell.init is Init.SYSTEMD else "job")


def test_hierarchy(cell: Cell) -> None:
    unified = (CGROUPS / "cgroup.controllers").exists()
    assert unified == (cell.hierarchy is Hierarchy.V2)
    assert (CGROUPS / "memory" / "memory.stat").exists() == cell.memory_is_v1
    assert (CGROUPS / "unified" / "cgroup.controllers").exists() == (cell.hierarchy is Hierarchy.HYBRID)
    if unified:
        assert "memory" in (CGROUPS / "cgroup.subtree_control").read_text().split()


def test_memory(cell: Cell) -> None:
    assert len(Path("/proc/swaps").read_text().splitlines()) - 1 == (1 if cell.swap_megabytes else 0)
    assert len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) == cell.numa_nodes
    switch = Path("/sys/kernel/mm/lru_gen/enabled")
    assert (switch.exists() and int(switch.read_text(), 16) & 1 == 1) == cell.mglru
