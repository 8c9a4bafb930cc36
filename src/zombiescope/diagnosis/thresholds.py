# SPDX-License-Identifier: Apache-2.0
"""Every number that a judgement compares with, and the severity it gives."""

from collections.abc import Iterable
from enum import StrEnum
from math import ceil
from typing import NamedTuple

from zombiescope.analysis.scan import Population


class Severity(StrEnum):
    OK = "ok"
    WARNING = "warning"
    CRITICAL = "critical"
    UNKNOWN = "unknown"


SEVERITIES = (Severity.OK, Severity.UNKNOWN, Severity.WARNING, Severity.CRITICAL)
"""From the one that matters least to the one that matters most."""


def worst_of(found: Iterable[Severity]) -> Severity:
    return max(found, key=SEVERITIES.index)


def graded(value: float, warning: float, critical: float) -> Severity:
    """By two limits, both inclusive."""
    return severity_if(critical=value >= critical, warning=value >= warning)


def severity_if(*, critical: bool, warning: bool) -> Severity:
    return Severity.CRITICAL if critical else Severity.WARNING if warning else Severity.OK


class Thresholds(NamedTuple):
    """Each number that stays a number is argued in one line: what it rests on, if not on the machine it was written on."""

    zombies_warning: int = 1_000
    """What the incident's own image check asks for; people's stock alerts (SysAK, 2023) begin there too."""
    zombies_critical: int = 10_000
    """Ten times that: reclaim and every reader of statistics have them to walk over on any kernel before 7.1."""
    ratio_warning: float = 5.0
    """Counted per live: a share, whatever the size of the host."""
    ratio_critical: float = 50.0
    """Ten times that, as for the number: 98 of 100 counted are dead, and whoever visits all of them works for the dead alone."""
    ratio_least_zombies: int = 200
    """Below this many zombies the ratio says nothing: a small host with a handful is well."""
    ratio_critical_zombies: int = 5_000
    """Below this many no ratio is critical: 210 zombies beside 3 live cgroups harm nobody, unless harm is measured."""
    expected_live: int = 0
    """Live memory cgroups that this host is meant to have; 0: not known, and nothing is compared with it."""
    expected_multiple: float = 3.0
    """Counted, as a multiple of the expected ones, from which on it is a warning: the small multiple people alert on."""
    empty_directories_warning: int = 1_000
    """As for zombies: a directory costs the kernel what a zombie does."""
    empty_directories_critical: int = 10_000
    """As for zombies."""
    growth_warning_per_hour: float = 100
    """A thousand more in ten hours: found in one working day."""
    growth_slow_per_hour: float = 20
    """What an hour's watch may call a leak; a shorter one needs `growth_warning_per_hour`."""
    growth_critical_per_hour: float = 1_000
    """`zombies_warning` within the hour, and `zombies_critical` within ten: before the next shift looks."""
    growth_least: int = 10
    """Zombies more than at the start of the window, below which a slope is noise."""
    growth_least_in_a_row: int = 3
    """Left by one maker in a window, hardly one released, beside `growth_least` zombies that it left before: the stock says the
    same, so that three are enough, at any speed of the maker and of the machine."""
    growth_least_alone: int = 5
    """The same without such a stock: more than one service leaves that is stopped with its helpers, half of what a slope needs."""
    unreleased_share: float = 0.8
    """Of a maker's deaths in a window, not released: churn releases most of them, and a leak may let a few go."""
    growth_least_seconds: float = 180
    """A rise that is shorter may be a wave: many deaths at once, released within a minute or two."""
    saturated_warning_seconds: float = 1.0
    """The longest stretch of one core without time but for the kernel: a fifth of what drivers bear, on any machine."""
    saturated_critical_seconds: float = 5.0
    """Drivers give a transmit queue five seconds before they reset the card."""
    pin_share: float = 0.1
    """Of all zombies, held by one kind of pin, below which it is not worth a finding."""
    leak_least_zombies: int = 20
    """Left by one maker, below which it only churns: what a boot or one deployment leaves."""
    blame_share: float = 0.1
    """Of all zombies, left by one maker, from which on it is to blame for them."""
    steal_warning: float = 0.1
    """Of all CPU time: a tenth is more than neighbours of a host that is not overcommitted take."""
    steal_critical: float = 0.3
    """Nearly a third: four cores do the work of less than three, which no reserve of a host at work makes good."""
    shortage_most_idle: float = 0.05
    """Of all CPU time: one core in twenty idle for a moment is what a scheduler leaves of a full machine."""
    shortage_least_user: float = 0.6
    """Of all CPU time, by programs: clearly more than half, so that the kernel is not what fills the machine."""
    real_time_share: float = 0.5
    """Of a core, taken by one real-time task; the kernel lets it have 0.95."""
    oom_reports_warning: int = 3
    """One is a bad day of one program; three within the hour come back."""
    oom_recent_seconds: float = 3600
    """The hour that the count is for: older reports belong to another incident."""
    memory_share: float = 0.05
    """Kernel memory held by zombies, as a share of the machine's, to which growth is forecast: a twentieth is what hosts keep free
    as a reserve, so that it is the last that goes unnoticed."""
    nic_reset_recent_seconds: float = 86_400
    """A reset of the network card that is older is history, not a finding."""
    nic_resets_critical: int = 3
    """Three within a day are no accident."""
    softirq_wait_warning_seconds: float = 0.1
    """Above every retransmission timer of a network nearby (TCP's least is 0.2 s), far above a healthy wait (microseconds)."""
    softirq_wait_critical_seconds: float = 1.0
    """A fifth of what a driver bears before it resets the card."""
    reclaim_share: float = 0.15
    """Of one core a warning, of the whole machine critical: kswapd and the tasks that reclaim themselves. Reclaim in step with its
    work takes a few hundredths; three times `walk_share` is no part of that."""
    memory_stall_share: float = 0.15
    """Of the time, in which some task waited for memory: `reclaim_share`, as whoever waits for reclaim sees it."""
    memory_stall_critical_share: float = 0.5
    """Somebody waits as often as nobody does."""
    throttled_share: float = 0.25
    """Of a cgroup's periods, in which its quota ran out: where the usual alert of Kubernetes (CPUThrottlingHigh) begins."""
    throttled_critical_share: float = 0.75
    """Three of four: it is held by its quota as its ordinary state, and runs free only as an exception."""
    throttled_least_periods: int = 10
    """A second of the usual periods of 0.1 s: fewer say nothing."""
    sweep_warning_seconds: float = 0.5
    """Readers sweep every ten seconds (kubelet, cAdvisor): a twentieth of a core, for one of them."""
    sweep_critical_seconds: float = 5.0
    """Half of the time between two sweeps, and what a driver bears."""
    reclaim_pass_critical_seconds: float = 1.0
    """One call of reclaim that long makes its task miss everything that has a time limit, on any machine."""
    reclaim_walk_least_zombies: int = 100
    """Fewer than the live ones of any host at work, which reclaim visits all the same."""
    walk_share: float = 0.05
    """Of one core, spent on walking over zombies: less is not worth a finding."""
    walk_critical_share: float = 0.5
    """Of one core: it is held, whoever else wants it."""

    def of_reclaim_share(self, share: float, cores: int | None, stall: float | None) -> Severity:
        stalled = stall or 0.0
        is_all = bool(cores) and share / (cores or 1) >= self.reclaim_share
        return severity_if(
            critical=is_all or stalled >= self.memory_stall_critical_share,
            warning=share >= self.reclaim_share or stalled >= self.memory_stall_share,
        )

    def of_throttling(self, share: float) -> Severity:
        return graded(share, self.throttled_share, self.throttled_critical_share)

    def of_sweep(self, seconds: float) -> Severity:
        return graded(seconds, self.sweep_warning_seconds, self.sweep_critical_seconds)

    def of_walk(self, share: float, longest_seconds: float) -> Severity:
        """`share`: of one core, spent on it."""
        return severity_if(
            critical=longest_seconds >= self.reclaim_pass_critical_seconds or share >= self.walk_critical_share,
            warning=share >= self.walk_share or longest_seconds >= self.softirq_wait_warning_seconds,
        )

    def of_softirq_wait(self, seconds: float) -> Severity:
        return graded(seconds, self.softirq_wait_warning_seconds, self.softirq_wait_critical_seconds)

    def growth_needed(self, window_seconds: float) -> float:
        return self.growth_slow_per_hour if window_seconds >= 3600 else self.growth_warning_per_hour

    def of_population(self, population: Population) -> Severity:
        """By the stock alone; with a measured harm it may be worse (`stock.py`)."""
        return worst_of((self.of_zombies(population.zombies), self.of_ratio(population), self.of_expected(population)))

    def warning_from(self, live: int) -> int:
        """The least number of zombies that is a warning by the stock alone, beside this many live cgroups."""
        found = [self.zombies_warning, max(self.ratio_least_zombies, ceil((self.ratio_warning - 1) * live))]
        if self.expected_live > 0:
            found.append(max(self.expected_live, ceil(self.expected_multiple * self.expected_live) - live))
        return max(min(found), 1)

    def of_zombies(self, zombies: int) -> Severity:
        return graded(zombies, self.zombies_warning, self.zombies_critical)

    def of_ratio(self, population: Population) -> Severity:
        return severity_if(
            critical=population.zombies >= self.ratio_critical_zombies and population.ratio >= self.ratio_critical,
            warning=population.zombies >= self.ratio_least_zombies and population.ratio >= self.ratio_warning,
        )

    def of_expected(self, population: Population) -> Severity:
        """Where it is said how many there are meant to be: not for a host that is merely busier than that."""
        is_above = population.counted >= self.expected_multiple * self.expected_live
        return Severity.WARNING if is_above and population.zombies >= self.expected_live > 0 else Severity.OK

    def of_stretch(self, seconds: float) -> Severity:
        return graded(seconds, self.saturated_warning_seconds, self.saturated_critical_seconds)

    def of_empty_directories(self, count: int) -> Severity:
        return graded(count, self.empty_directories_warning, self.empty_directories_critical)
