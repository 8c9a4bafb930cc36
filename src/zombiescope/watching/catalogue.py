# SPDX-License-Identifier: Apache-2.0
"""What the agent watches beside the cgroups, a line per subject: its label, its pace, and who tells of it."""

from collections.abc import Callable
from typing import NamedTuple

from zombiescope.host.access import Host
from zombiescope.probes.cgroups import read_memory_hierarchy
from zombiescope.watching.cores import CoresTeller
from zombiescope.watching.nics import NicsTeller
from zombiescope.watching.pods import PodsTeller, has_pods
from zombiescope.watching.reclaim import ReclaimTeller
from zombiescope.watching.softirq import PollsTeller, SoftirqTeller
from zombiescope.watching.sweeps import SweepsTeller
from zombiescope.watching.watch import Teller


class Probe(NamedTuple):
    name: str
    """The value of the label `probe`."""
    seconds: float
    """Between two readings."""
    open: Callable[[Host], Teller | None]
    """None: nothing of the kind is on this host, which is no gap. Raises ObservationError when it is refused: tried again."""


PROBES: tuple[Probe, ...] = (
    Probe("nic_resets", 5.0, NicsTeller),
    Probe("cores", 1.0, CoresTeller),
    Probe("softirq", 5.0, SoftirqTeller),
    Probe("polls", 5.0, PollsTeller),
    Probe("reclaim", 10.0, ReclaimTeller),
    Probe("sweeps", 1.0, SweepsTeller),
    Probe("pods", 10.0, lambda host: PodsTeller(host, read_memory_hierarchy(host)) if has_pods(host) else None),
)
