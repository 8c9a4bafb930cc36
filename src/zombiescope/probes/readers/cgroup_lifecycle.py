# SPDX-License-Identifier: Apache-2.0
"""Births, deaths and releases by the best tier this host allows: counted in the kernel by BPF, else streamed from a private
tracefs instance, else seen by polling. Each tier that was not to be had leaves its reason among the gaps.

On v2 cgroups without the memory controller are counted too: nothing in the event tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from zombiescope.errors import ObservationError
from zombiescope.facts.cgroups import Hierarchy, HierarchyVersion
from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import Dead, EventTier, Lifecycle
from zombiescope.host.access import Host
from zombiescope.kernel.bpf_ledger import BpfLedger
from zombiescope.kernel.trace_ledger import TraceLedger
from zombiescope.probes.lifecycle_polling import PollingLedger
from zombiescope.probes.proc_cgroups import ControllerRow, read_controller_row

ALL_TIERS = tuple(EventTier)


class Ledger(Protocol):
    @property
    def tier(self) -> EventTier: ...

    @property
    def refused(self) -> tuple[Gap, ...]:
        """Why it is not a better tier."""
        ...

    def read(self) -> Lifecycle:
        """What happened since the reading before."""
        ...

    def moved(self) -> tuple[int, int] | None:
        """Births and deaths at this very moment, where knowing costs nothing."""
        ...

    def catch_up(self) -> float:
        """Between two readings: empties what could overflow. Seconds until that should be done again; infinite where never."""
        ...

    def dead(self) -> Iterator[Dead]:
        """Who died since the ledger began and is not released; nobody where the tier keeps no names."""
        ...

    def close(self) -> None: ...


def open_ledger(host: Host, hierarchy: Hierarchy, tiers: Sequence[EventTier] = ALL_TIERS) -> Ledger | Gap:
    """Starts to watch. `tiers` limits what may be tried."""
    if not host.is_live:
        return Gap("births", "nothing happens in a folder", "run on the host itself")
    refused: list[Gap] = []
    for tier in (EventTier.BPF, EventTier.TRACEFS):
        if tier not in tiers:
            continue
        try:
            return _open(tier, host, hierarchy, tuple(refused))
        except ObservationError as error:
            refused.append(Gap(f"events.{tier}", error.why, error.hint))
    if EventTier.POLLING in tiers:
        return PollingLedger(host, hierarchy, tuple(refused))
    return refused[-1] if refused else Gap("births", "no way to see events was allowed")


def _open(tier: EventTier, host: Host, hierarchy: Hierarchy, why: tuple[Gap, ...]) -> Ledger:
    number = _hierarchy_number(host, hierarchy)
    if tier is EventTier.BPF:
        return BpfLedger(number, host.wait, host.wall_clock)
    return TraceLedger(number, host.wall_clock, refused=why)


def _hierarchy_number(host: Host, hierarchy: Hierarchy) -> int:
    """The kernel's number of the hierarchy; the unified one is 0, also where /proc/cgroups has no row for memory."""
    if hierarchy.version is HierarchyVersion.V2:
        return 0
    row = read_controller_row(host)
    if isinstance(row, ControllerRow):
        return row.hierarchy
    raise ObservationError("cannot watch cgroup events", row.reason, row.hint)
