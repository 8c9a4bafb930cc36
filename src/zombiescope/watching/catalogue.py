# SPDX-License-Identifier: Apache-2.0
"""What the agent watches beside the cgroups, a line per subject: its label, its pace, and who tells of it. Each is loaded when it
is opened, so that only an agent that uses it pays."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from zombiescope.host.access import Host
from zombiescope.watching.watch import Teller


class Probe(NamedTuple):
    name: str
    """The value of the label `probe`."""
    seconds: float
    """Between two readings."""
    open: Callable[[Host], Teller | None]
    """None: nothing of the kind is on this host, which is no gap. Raises ObservationError when it is refused: tried again."""


def _nic_resets(host: Host) -> Teller:
    from zombiescope.watching.nics import NicsTeller  # noqa: PLC0415

    return NicsTeller(host)


def _cores(host: Host) -> Teller:
    from zombiescope.watching.cores import CoresTeller  # noqa: PLC0415

    return CoresTeller(host)


def _softirq(host: Host) -> Teller:
    from zombiescope.watching.softirq import SoftirqTeller  # noqa: PLC0415

    return SoftirqTeller(host)


def _polls(host: Host) -> Teller:
    from zombiescope.watching.polls import PollsTeller  # noqa: PLC0415

    return PollsTeller(host)


def _reclaim(host: Host) -> Teller:
    from zombiescope.watching.reclaim import ReclaimTeller  # noqa: PLC0415

    return ReclaimTeller(host)


def _sweeps(host: Host) -> Teller:
    from zombiescope.watching.sweeps import SweepsTeller  # noqa: PLC0415

    return SweepsTeller(host)


def _pods(host: Host) -> Teller | None:
    from zombiescope.probes.readers.cgroup_mounts import read_memory_hierarchy  # noqa: PLC0415
    from zombiescope.watching.pods import PodsTeller, has_pods  # noqa: PLC0415

    return PodsTeller(host, read_memory_hierarchy(host)) if has_pods(host) else None


PROBES: tuple[Probe, ...] = (
    Probe("nic_resets", 5.0, _nic_resets),
    Probe("cores", 1.0, _cores),
    Probe("softirq", 5.0, _softirq),
    Probe("polls", 5.0, _polls),
    Probe("reclaim", 10.0, _reclaim),
    Probe("sweeps", 1.0, _sweeps),
    Probe("pods", 10.0, _pods),
)
