# SPDX-License-Identifier: Apache-2.0
"""Every metric once: name, kind, help, labels. The exporter, the rules, the dashboard and the reference all read it.

At most 120 series a node: no label here can take more than a handful of values, and none is by CPU.
"""

from enum import StrEnum
from typing import NamedTuple

PREFIX = "zombiescope_"
MOST_SERIES = 120
POLL_WAIT_POWERS, POLL_RUN_POWERS = (14, 17, 20), (17,)
"""Bounds of their buckets: powers of two of microseconds, as the kernel counts them: 16, 131 and 1,049 milliseconds."""
SWEEP_BUCKETS = (0.01, 0.1, 0.5, 1.0, 5.0)


class MetricKind(StrEnum):
    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"


class Metric(NamedTuple):
    name: str
    """As it is scraped, prefix and `_total` included."""
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()


def _metric(name: str, kind: MetricKind, help_text: str, *labels: str) -> Metric:
    return Metric(PREFIX + name, kind, help_text, labels)


_G, _C, _H = MetricKind.GAUGE, MetricKind.COUNTER, MetricKind.HISTOGRAM

COUNTED = _metric("memcg_counted", _G, "Memory cgroups that the kernel counts, live and zombie.")
LIVE = _metric("memcg_live", _G, "Memory cgroups that have a directory, the root included.")
ZOMBIES = _metric("memcg_zombies", _G, "Memory cgroups that were removed and are not released: the lower of two looks.")
ZOMBIE_BYTES = _metric(
    "memcg_zombie_bytes",
    _G,
    "Bytes that no live cgroup accounts for, by kind (file, shmem, anon, swap, unevictable).",
    "kind",
)
KERNEL_BYTES = _metric("memcg_kernel_bytes", _G, "Kernel memory that zombies hold beside their pages; an estimate.")
BIRTHS = _metric("memcg_births_total", _C, "Cgroups born (mkdir) since the agent began.")
DEATHS = _metric("memcg_deaths_total", _C, "Cgroups died (rmdir) since the agent began.")
RELEASES = _metric("memcg_releases_total", _C, "Dead cgroups released (freed) since the agent began.")
MAKER_ZOMBIES = _metric(
    "memcg_maker_zombies",
    _G,
    "Zombies by maker: the ten with most, and other. Ids of pods and sessions are folded.",
    "maker",
)
GROWTH = _metric(
    "memcg_growth_per_second", _G, "Growth in zombies per second: a robust slope over the last ten minutes."
)
THRESHOLD = _metric(
    "memcg_threshold_seconds", _G, "Seconds until the next threshold is reached; absent while nothing grows."
)
SWEEP = _metric("stat_sweep_seconds", _H, "Time to read every live cgroup's statistics once, as kubelet does.")
SOFTIRQ_WAIT = _metric(
    "softirq_wait_seconds_total",
    _C,
    "Time that ksoftirqd, on all cores together, stood in line, since the agent began.",
)
POLL_WAIT = _metric(
    "poll_wait_seconds",
    _H,
    "What the network's softirqs (from raise to run) and the threads that poll it waited for their core, of all cores and of "
    "each interval's worst one. Waits of 10 ms and more are seen one by one; the shorter ones are counted, and spread as those "
    "that were stamped.",
    "cores",
)
POLL_RUN = _metric(
    "poll_run_seconds",
    _H,
    "Polls of network queues, of all cores and of each interval's worst one; the short ones as far as they were stamped.",
    "cores",
)
POLL_WAIT_P999 = _metric(
    "poll_wait_p999_seconds",
    _G,
    "What one network packet in a thousand, arriving evenly over the last minute, would have waited for the worst core.",
)
POLL_STAMPED = _metric(
    "poll_stamped_share",
    _G,
    "Share of the last ten minutes in which every softirq was stamped; less where there are many.",
)
RECLAIM_CPU = _metric(
    "reclaim_cpu_seconds_total",
    _C,
    "Processor time that reclaim took since the agent began: by kswapd, and by tasks that reclaim themselves (needs BPF).",
    "who",
)
PRESSURE = _metric(
    "pressure_stalled_seconds_total",
    _C,
    "Time in which some or all tasks waited for a resource, since boot: the kernel's pressure files.",
    "resource",
    "kind",
)
MAJOR_FAULTS = _metric("major_faults_total", _C, "Page faults that had to read from a disk, since boot.")
THROTTLED = _metric(
    "throttled_seconds_total",
    _C,
    "Time that cgroups were held by their CPU quotas, added up, since the agent began; read each minute.",
)
THROTTLED_SHARE = _metric(
    "throttled_periods_share",
    _G,
    "Share of its periods of the last ten minutes in which the most throttled cgroup ran out of its CPU quota.",
)
SWEEPERS = _metric(
    "sweeper_cpu_seconds_total",
    _C,
    "Processor time in the kernel of known readers of cgroup statistics (kubelet, cAdvisor, ...) since the agent began.",
)
NIC_RESETS = _metric(
    "nic_resets_total",
    _C,
    "Resets of network cards since the agent began: by the kernel's words, or drivers' counters where the log is refused.",
    "device",
    "reason",
)
CORE_SATURATED = _metric(
    "core_saturated_seconds_total",
    _C,
    "Core seconds in which a core had no time but for the kernel, by what held it (system, softirq, irq, steal).",
    "mode",
)
UNIT_RESTARTS = _metric(
    "unit_restarts_total",
    _C,
    "Automatic restarts as systemd counts them, of units that loop: the six with most. No series: none loops.",
    "unit",
)
FINDING = _metric("finding", _G, "1 for each finding that is present.", "id", "severity")
PROBE_SECONDS = _metric("probe_seconds", _G, "How long the probe took last time.", "probe")
PROBE_SUCCESS = _metric("probe_success", _G, "1 when the probe gave its fact last time, 0 when it gave a gap.", "probe")
EVENTS_LOST = _metric("events_lost_total", _C, "Births, deaths and releases known to have been missed.")
BUILD = _metric("build_info", _G, "1; the version of the agent.", "version")
NODE = _metric(
    "node_info",
    _G,
    "1; the kernel, the memory hierarchy and the image of the node, and its cluster where that was told.",
    "kernel",
    "hierarchy",
    "image",
    "cluster",
)

METRICS = (
    COUNTED, LIVE, ZOMBIES, ZOMBIE_BYTES, KERNEL_BYTES, BIRTHS, DEATHS, RELEASES, MAKER_ZOMBIES, GROWTH, THRESHOLD, SWEEP,
    CORE_SATURATED, SOFTIRQ_WAIT, POLL_WAIT, POLL_RUN, POLL_WAIT_P999, POLL_STAMPED, RECLAIM_CPU, PRESSURE, MAJOR_FAULTS,
    THROTTLED, THROTTLED_SHARE, SWEEPERS, NIC_RESETS, UNIT_RESTARTS, FINDING, PROBE_SECONDS, PROBE_SUCCESS, EVENTS_LOST,
    BUILD, NODE,
)  # fmt: skip

# The reaper's own, beside the agent's set: it writes a text file of its own.
REAP_FREED = _metric("reap_freed_total", _C, "Zombies that the reaper freed since it began.")
REAP_PAGES = _metric("reap_evicted_pages_total", _C, "Pages that the reaper evicted since it began.")
REAP_CPU = _metric("reap_cpu_seconds_total", _C, "Processor time that the reaper took since it began.")
REAP_PASSES = _metric("reap_passes_total", _C, "Looks that the reaper took since it began.")
REAP_WALKS = _metric("reap_walks_total", _C, "Walks of the kernel's tree that the reaper took since it began.")
REAP_REFUSED = _metric(
    "reap_refused_total", _C, "Evictions that were not done, for the file was in use or had changed."
)
REAP_STATE = _metric("reap_state", _G, "1 for what the reaper's last pass came to.", "state")
REAP_LEFT = _metric("reap_left", _G, "Zombies that the reaper leaves, by reason.", "reason")
REAPER_FIGURES = (REAP_FREED, REAP_PAGES, REAP_CPU, REAP_PASSES, REAP_WALKS, REAP_REFUSED)
