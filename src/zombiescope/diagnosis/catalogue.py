# SPDX-License-Identifier: Apache-2.0
"""The list of rules, in the order in which findings are shown."""

from __future__ import annotations

from collections.abc import Callable

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Finding
from zombiescope.diagnosis.rules.costly_reclaim_walk import judge_costly_reclaim_walk
from zombiescope.diagnosis.rules.costly_sweep import judge_costly_sweep
from zombiescope.diagnosis.rules.cpu_shortage import judge_cpu_shortage
from zombiescope.diagnosis.rules.cpu_steal import judge_cpu_steal
from zombiescope.diagnosis.rules.cpu_throttling import judge_cpu_throttling
from zombiescope.diagnosis.rules.crash_looping_unit import judge_crash_looping_unit
from zombiescope.diagnosis.rules.image_risk import judge_image_risk
from zombiescope.diagnosis.rules.looping_container import judge_looping_container
from zombiescope.diagnosis.rules.memory_shortage import judge_memory_shortage
from zombiescope.diagnosis.rules.nic_reset import judge_nic_reset
from zombiescope.diagnosis.rules.oom_dumps import judge_oom_dumps
from zombiescope.diagnosis.rules.pinned_other import judge_pinned_other
from zombiescope.diagnosis.rules.pinned_page_cache import judge_pinned_page_cache
from zombiescope.diagnosis.rules.pinned_shared_memory import judge_pinned_shared_memory
from zombiescope.diagnosis.rules.pinned_swap import judge_pinned_swap
from zombiescope.diagnosis.rules.pinned_writeback import judge_pinned_writeback
from zombiescope.diagnosis.rules.real_time_hog import judge_real_time_hog
from zombiescope.diagnosis.rules.reclaim_pressure import judge_reclaim_pressure
from zombiescope.diagnosis.rules.saturated_core import judge_saturated_core
from zombiescope.diagnosis.rules.starved_softirq import judge_starved_softirq
from zombiescope.diagnosis.rules.unneeded_agent import judge_unneeded_agent
from zombiescope.diagnosis.rules.visible_leak import judge_visible_leak
from zombiescope.diagnosis.rules.zombie_growth import judge_zombie_growth
from zombiescope.diagnosis.rules.zombie_population import judge_zombie_population

RULES: tuple[Callable[[Case], Finding], ...] = (
    judge_nic_reset,
    judge_starved_softirq,
    judge_saturated_core,
    judge_costly_sweep,
    judge_costly_reclaim_walk,
    judge_reclaim_pressure,
    judge_cpu_throttling,
    judge_zombie_population,
    judge_zombie_growth,
    judge_visible_leak,
    judge_pinned_page_cache,
    judge_pinned_shared_memory,
    judge_pinned_swap,
    judge_pinned_writeback,
    judge_pinned_other,
    judge_crash_looping_unit,
    judge_looping_container,
    judge_unneeded_agent,
    judge_image_risk,
    judge_cpu_steal,
    judge_cpu_shortage,
    judge_real_time_hog,
    judge_oom_dumps,
    judge_memory_shortage,
)
