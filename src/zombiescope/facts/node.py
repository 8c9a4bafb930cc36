# SPDX-License-Identifier: Apache-2.0
"""The machine that was looked at: who it is, and how large the kernel's per-CPU and per-node structures are on it."""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.facts.gap import Gap

PAGE_BYTES_UNTOLD = 4096
"""Of every x86-64 kernel and most others: for folders, and recordings made before the page size was kept."""


class Identity(NamedTuple):
    """Each field is known or is None with a gap in `gaps`."""

    name: str | None
    kernel: str | None
    boot_id: str | None
    uptime_seconds: float | None
    gaps: tuple[Gap, ...] = ()
    cluster: str = ""
    """The Kubernetes cluster that it belongs to, as somebody told us; empty where nobody did."""


class Shape(NamedTuple):
    """Possible CPUs and NUMA nodes: the kernel allocates per-CPU memory for every possible one, not only those online."""

    possible_cpus: int | None
    possible_nodes: int | None
    gaps: tuple[Gap, ...] = ()
