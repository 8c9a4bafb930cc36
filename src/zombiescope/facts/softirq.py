# SPDX-License-Identifier: Apache-2.0
"""What softirqs waited: how long ksoftirqd stood in line (schedstat), polls cut short and packets dropped (softnet), where BPF is
allowed, from raise to run by core, and looks at the network's softirqs for ever."""

from collections.abc import Mapping
from typing import NamedTuple

from zombiescope.facts.gap import Gap
from zombiescope.facts.lifecycle import Histogram

BUCKETS = 32
"""As in `lifecycle.Histogram`: powers of two of microseconds."""
Buckets = tuple[int, ...]


class LongTimes(NamedTuple):
    """Those that stood at two looks of the clock: each is seen, to within a look."""

    counts: Buckets
    sums_ns: Buckets
    longest_seconds: float
    longest_at: float | None
    open_seconds: float
    """Of the one that is not over; 0 where there is none."""


class ThreadRuns(NamedTuple):
    """Of kernel threads that poll a device in the softirq's place (threaded NAPI)."""

    runs: int = 0
    """How often one got the core without a long wait."""
    seconds: float = 0.0
    """What those waited altogether, by the scheduler's account."""
    longs: int = 0
    """Long waits: they are among the core's."""


class PollCore(NamedTuple):
    """Since watching began."""

    core: int
    runs: int
    """Of network softirqs; a number of 32 bits that begins anew."""
    waited: Buckets
    """From raise to run, stamped in the slices."""
    polled: Buckets
    waits: LongTimes
    polls: LongTimes
    threads: ThreadRuns = ThreadRuns()


class PollLook(NamedTuple):
    at: float
    steady: float
    cores: tuple[PollCore, ...]
    looks: int
    """Of the clock, since watching began."""
    latest_seconds: float
    """How late a look was at most: nothing was seen meanwhile."""
    sees_polls: bool
    """Long polls are seen by the clock; else only in the slices."""
    stamped_seconds: float
    """How much of the time every softirq was stamped."""
    threads: int = 0
    """That poll the network and are followed."""
    threads_found: int = 0
    """All of them."""


class PollTail(NamedTuple):
    """What one network packet in a thousand, arriving at any moment, would have waited at least, on the worst core."""

    p999_seconds: float
    """In the last minute."""
    earlier_seconds: float | None
    """In the minutes before it, of the last ten, on average; None where they were not watched."""
    minutes_above: int
    """Of the last ten, in which it was above a tenth of a second."""
    stamped_share: float
    """Of the time in which every softirq was stamped; longer waits are always seen."""

    @property
    def is_growing(self) -> bool:
        return self.earlier_seconds is not None and self.p999_seconds > GROWING * self.earlier_seconds


GROWING = 1.2
"""By a fifth: more than one minute differs from another at the same load."""


class KsoftirqdTime(NamedTuple):
    run_ns: int
    wait_ns: int
    """Runnable, and not running."""
    slices: int


class SoftirqLook(NamedTuple):
    at: float
    steady: float
    """On a clock that only goes forward."""
    ksoftirqd: Mapping[int, KsoftirqdTime] | Gap
    """By core."""
    squeezed: int | None
    """Polls that ended with work left, of all cores; None where softnet could not be read."""
    dropped: int | None


class WaitTimes(NamedTuple):
    """How long something took or waited on one core."""

    histogram: Histogram = Histogram()
    longest_seconds: float = 0.0
    longest_at: float | None = None
    """When the longest began, seconds since the epoch."""
    is_open: bool = False
    """The longest was not over when the window ended."""


class CoreLatency(NamedTuple):
    core: int
    network: WaitTimes
    """From raise to run, of the network's two softirqs."""
    others: WaitTimes
    poll: WaitTimes
    """One poll of one network queue."""
    queue: WaitTimes
    """ksoftirqd, from runnable to running."""

    @property
    def worst(self) -> WaitTimes:
        return max((self.network, self.others), key=lambda times: times.longest_seconds)


class KsoftirqdWait(NamedTuple):
    """The interval between two looks in which one core's ksoftirqd waited longest."""

    core: int
    at: float
    seconds: float
    slices: int
    dropped: int | None = None
    """Packets that softnet dropped in the same interval, of all cores; None where it was not read."""


class SoftirqStep(NamedTuple):
    """What is kept of two looks, whatever the number of cores."""

    at: float
    until: float
    seconds: float
    """On a clock that only goes forward."""
    waited_seconds: float | Gap
    longest: KsoftirqdWait | None
    squeezed: int | None
    dropped: int | None


class SoftirqSeen(NamedTuple):
    began_at: float
    seconds: float
    waited_seconds: float | Gap
    """ksoftirqd of all cores together."""
    longest: KsoftirqdWait | None
    squeezed: int | None
    dropped: int | None
    latencies: tuple[CoreLatency, ...] | Gap
    """In the kernel; the gap where BPF and hist triggers are refused."""
    is_least: bool = False
    """Waits may have been longer than `latencies` say: hist triggers know the last raise alone."""
    refused: str = ""
    """Why BPF was refused, where hist triggers stand in for it."""
    tail: PollTail | None = None
    """What was followed all the time; None in a window."""


RESET_COUNTERS = (
    "total_resets", "suspected_poll_starvation", "missing_tx_cmpl", "tx_timeout", "os_netdev_wd", "wd_expired", "missing_intr",
    "missing_first_intr", "missing_admin_interrupt", "admin_to", "admin_q_pause", "reset_fail", "other_reset_causes",
    "tx_timeouts", "tx_tx_timeouts",
)  # fmt: skip
"""Names as drivers give them: the ENA driver's, in the kernel and in Amazon's package, and virtio's."""


class DeviceCounters(NamedTuple):
    device: str
    timeouts: int | None
    """Transmit timeouts of all its queues, as the kernel counts them for any driver; None where it does not."""
    counters: Mapping[str, int]
    """Those of RESET_COUNTERS that the driver has, since it was loaded."""

    def grown(self, before: "DeviceCounters | None") -> dict[str, int]:
        """What is more than before; a counter that ran backwards began anew."""
        if before is None:
            return {}
        pairs = {
            name: (value, before.counters[name]) for name, value in self.counters.items() if name in before.counters
        }
        if self.timeouts is not None and before.timeouts is not None:
            pairs["timeouts"] = (self.timeouts, before.timeouts)
        more = {name: now - old if now >= old else now for name, (now, old) in pairs.items()}
        return {name: value for name, value in more.items() if value}


class NicCounters(NamedTuple):
    at: float
    seconds: float
    """Between the first look and the last; 0 when there was one."""
    first: tuple[DeviceCounters, ...]
    last: tuple[DeviceCounters, ...]
    gaps: tuple[Gap, ...] = ()

    def grown(self) -> dict[str, dict[str, int]]:
        """By device, what grew between the two looks."""
        before = {device.device: device for device in self.first}
        found = {now.device: now.grown(before[now.device]) for now in self.last if now.device in before}
        return {device: more for device, more in found.items() if more}
