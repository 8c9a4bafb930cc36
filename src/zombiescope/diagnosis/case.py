# SPDX-License-Identifier: Apache-2.0
"""What the rules are given: the snapshots of one window in order, their numbers, and the thresholds."""

from typing import TYPE_CHECKING, NamedTuple

from zombiescope.analysis.growth import Growth
from zombiescope.analysis.scan import Scan
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.facts.cgroups import Snapshot
from zombiescope.facts.gap import Gap

if TYPE_CHECKING:  # a scan has none of these
    from zombiescope.facts.cores import CoresSeen
    from zombiescope.facts.kernel_log import KernelLog
    from zombiescope.facts.lifecycle import FlowsSeen
    from zombiescope.facts.pods import PodsSeen
    from zombiescope.facts.reclaim import PressureSeen, ReclaimSeen, SweepersSeen
    from zombiescope.facts.softirq import NicCounters, SoftirqSeen
    from zombiescope.facts.units import RealTimeSeen, ServicesSeen
    from zombiescope.facts.zombies import Remains

NO_HISTORY = Gap(
    "growth", "no history of this host is kept", "zombiescope agent keeps one; zombiescope history shows it"
)
NOT_DISSECTED = Gap("remains", "the zombies were not looked at one by one", "zombiescope doctor, as root")
NO_SERVICES = Gap("services", "services were not watched", "zombiescope doctor")
NO_PODS = Gap("pods", "pods were not watched", "zombiescope doctor")
NO_FLOWS = Gap("flows", "births and deaths were not watched", "zombiescope doctor")
NO_PRIORITIES = Gap("real_time_tasks", "tasks were not watched", "zombiescope doctor")
NOT_WATCHED = Gap("cores", "the cores were not watched", "zombiescope cores --seconds 10")

NO_KERNEL_LOG, NO_NIC_COUNTERS, NO_PRESSURE, NO_RECLAIM, NO_SWEEPERS, NO_SOFTIRQ = (
    Gap(fact, "not looked at", "zombiescope doctor looks at it")
    for fact in ("kernel_log", "nic_counters", "pressure", "reclaim", "sweepers", "softirq")
)


class Observation(NamedTuple):
    snapshot: Snapshot
    scan: Scan


class Case(NamedTuple):
    observations: tuple[Observation, ...]
    thresholds: Thresholds
    growth: Growth | Gap = NO_HISTORY
    cores: "CoresSeen | Gap" = NOT_WATCHED
    kernel_log: "KernelLog | Gap" = NO_KERNEL_LOG
    nic_counters: "NicCounters | Gap" = NO_NIC_COUNTERS
    remains: "Remains | Gap" = NOT_DISSECTED
    services: "ServicesSeen | Gap" = NO_SERVICES
    real_time: "RealTimeSeen | Gap" = NO_PRIORITIES
    softirq: "SoftirqSeen | Gap" = NO_SOFTIRQ
    reclaim: "ReclaimSeen | Gap" = NO_RECLAIM
    sweepers: "SweepersSeen | Gap" = NO_SWEEPERS
    pressure: "PressureSeen | Gap" = NO_PRESSURE
    flows: "FlowsSeen | Gap" = NO_FLOWS
    pods: "PodsSeen | Gap" = NO_PODS

    @property
    def first(self) -> Observation:
        return self.observations[0]

    @property
    def last(self) -> Observation:
        return self.observations[-1]
