# SPDX-License-Identifier: Apache-2.0
"""Every number that a judgement compares with, and the severity it gives."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from zombiescope.analysis.census import Population


class Severity(StrEnum):
    OK = "ok"
    WARNING = "warning"
    CRITICAL = "critical"
    UNKNOWN = "unknown"


class Thresholds(NamedTuple):
    zombies_warning: int = 1_000
    zombies_critical: int = 10_000
    ratio_warning: float = 5.0
    ratio_critical: float = 50.0
    ratio_least_zombies: int = 200
    """Below this many zombies the ratio says nothing: a small host with a handful is well."""
    empty_directories_warning: int = 1_000
    empty_directories_critical: int = 10_000
    growth_warning_per_hour: float = 100
    growth_slow_per_hour: float = 20
    """What an hour's watch may call a leak; a shorter one needs `growth_warning_per_hour`."""
    growth_critical_per_hour: float = 1_000
    growth_least: int = 10
    """Zombies more than at the start of the window, below which a slope is noise."""
    growth_least_seconds: float = 180
    """A rise that is shorter may be a wave: many deaths at once, released a little later."""
    saturated_warning_seconds: float = 1.0
    """The longest stretch of one core without time but for the kernel."""
    saturated_critical_seconds: float = 5.0
    """Drivers give a transmit queue five seconds before they reset the card."""
    pin_share: float = 0.1
    """Of all zombies, held by one kind of pin, below which it is not worth a finding."""
    leak_least_zombies: int = 20
    """Left by one maker, below which it only churns."""
    blame_share: float = 0.1
    """Of all zombies, left by one maker, from which on it is to blame for them."""
    steal_warning: float = 0.1
    """Of all CPU time."""
    steal_critical: float = 0.3
    shortage_most_idle: float = 0.05
    shortage_least_user: float = 0.6
    real_time_share: float = 0.5
    """Of a core, taken by one real-time task."""
    oom_reports_warning: int = 3
    oom_recent_seconds: float = 3600
    memory_share: float = 0.05
    """Kernel memory held by zombies, as a share of the machine's, to which growth is forecast."""
    nic_reset_recent_seconds: float = 86_400
    """A reset of the network card that is older is history, not a finding."""
    nic_resets_critical: int = 3
    softirq_wait_warning_seconds: float = 0.1
    softirq_wait_critical_seconds: float = 1.0
    reclaim_share: float = 0.15
    """Of one core a warning, of the whole machine critical: kswapd and the tasks that reclaim themselves."""
    memory_stall_share: float = 0.15
    """Of the time, in which some task waited for memory."""
    memory_stall_critical_share: float = 0.5
    throttled_share: float = 0.25
    """Of a cgroup's periods, in which its quota ran out."""
    throttled_critical_share: float = 0.75
    throttled_least_periods: int = 10
    sweep_warning_seconds: float = 0.5
    sweep_critical_seconds: float = 5.0
    reclaim_pass_critical_seconds: float = 1.0
    reclaim_walk_least_zombies: int = 200
    """A walk over fewer does not take long."""

    def of_reclaim_share(self, share: float, cores: int | None, stall: float | None) -> Severity:
        if (cores and share / cores >= self.reclaim_share) or (stall or 0.0) >= self.memory_stall_critical_share:
            return Severity.CRITICAL
        is_much = share >= self.reclaim_share or (stall or 0.0) >= self.memory_stall_share
        return Severity.WARNING if is_much else Severity.OK

    def of_throttling(self, share: float) -> Severity:
        if share >= self.throttled_critical_share:
            return Severity.CRITICAL
        return Severity.WARNING if share >= self.throttled_share else Severity.OK

    def of_sweep(self, seconds: float) -> Severity:
        if seconds >= self.sweep_critical_seconds:
            return Severity.CRITICAL
        return Severity.WARNING if seconds >= self.sweep_warning_seconds else Severity.OK

    def of_reclaim_pass(self, longest_seconds: float) -> Severity:
        return Severity.CRITICAL if longest_seconds >= self.reclaim_pass_critical_seconds else Severity.WARNING

    def of_softirq_wait(self, seconds: float) -> Severity:
        if seconds >= self.softirq_wait_critical_seconds:
            return Severity.CRITICAL
        return Severity.WARNING if seconds >= self.softirq_wait_warning_seconds else Severity.OK

    def growth_needed(self, window_seconds: float) -> float:
        return self.growth_slow_per_hour if window_seconds >= 3600 else self.growth_warning_per_hour

    def of_population(self, population: Population) -> Severity:
        is_ratio_telling = population.zombies >= self.ratio_least_zombies
        if population.zombies >= self.zombies_critical or (
            is_ratio_telling and population.ratio >= self.ratio_critical
        ):
            return Severity.CRITICAL
        if population.zombies >= self.zombies_warning or (is_ratio_telling and population.ratio >= self.ratio_warning):
            return Severity.WARNING
        return Severity.OK

    def of_stretch(self, seconds: float) -> Severity:
        if seconds >= self.saturated_critical_seconds:
            return Severity.CRITICAL
        return Severity.WARNING if seconds >= self.saturated_warning_seconds else Severity.OK

    def of_empty_directories(self, count: int) -> Severity:
        if count >= self.empty_directories_critical:
            return Severity.CRITICAL
        return Severity.WARNING if count >= self.empty_directories_warning else Severity.OK
