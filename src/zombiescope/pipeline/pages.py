# SPDX-License-Identifier: Apache-2.0
"""Where the zombies cannot be walked, and for what no walk can name: the machine's pages, and the pins that hold none."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from zombiescope.facts.cgroups import Hierarchy, Residuals
from zombiescope.facts.gap import Gap
from zombiescope.facts.page_pins import PageCensus, PageFreePins, PagePins
from zombiescope.host.access import Host
from zombiescope.pipeline.opening import Progress
from zombiescope.probes.readers.deleted_tasks import read_cgroup_namespaces, read_deleted_tasks
from zombiescope.probes.readers.page_census import read_page_census
from zombiescope.probes.readers.page_pins import read_page_pins
from zombiescope.probes.readers.socket_pins import read_socket_pins
from zombiescope.probes.readers.writeback_trace import read_writeback_trace


class PagesSeen(NamedTuple):
    pins: PagePins | Gap
    census: PageCensus | Gap
    """A witness for the residual: `shmem` and `file` of a parent are at least its zombies'."""


def look_at_pages(
    host: Host, hierarchy: Hierarchy, residuals: Residuals, progress: Progress = lambda _: None
) -> PagesSeen:
    """The pages tier: which files pin zombies below which live parent. `residuals` says what there is to explain."""
    pins = read_page_pins(host, hierarchy, residuals, progress=progress)
    census = read_page_census(host, hierarchy, residuals.by_parent, progress=_in_tenths(progress))
    return PagesSeen(pins, census)


def look_beside_pages(host: Host, hierarchy: Hierarchy, parents: Iterable[bytes]) -> PageFreePins:
    """Pins that hold no page, for every tier; `parents` are live cgroups below which there are zombies."""
    return PageFreePins(
        read_deleted_tasks(host, hierarchy),
        read_cgroup_namespaces(host, hierarchy),
        read_socket_pins(host, hierarchy),
        read_writeback_trace(host, hierarchy, parents),
    )


def _in_tenths(progress: Progress) -> Callable[[float], None]:
    told = [-1]

    def tell(share: float) -> None:
        if int(share * 10) > told[0]:
            told[0] = int(share * 10)
            progress(f"counting the machine's pages, {told[0] * 10} %")

    return tell
