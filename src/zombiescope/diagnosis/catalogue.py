# SPDX-License-Identifier: Apache-2.0
"""The list of rules, in the order in which findings are shown; chain, sentence, report and pages derive from what each declares."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Finding
from zombiescope.diagnosis.rules import (
    costly_reclaim_walk,
    costly_sweep,
    cpu_shortage,
    cpu_steal,
    cpu_throttling,
    crash_looping_unit,
    image_risk,
    looping_container,
    memory_shortage,
    nic_reset,
    oom_dumps,
    pinned_other,
    pinned_page_cache,
    pinned_shared_memory,
    pinned_swap,
    pinned_writeback,
    real_time_hog,
    reclaim_pressure,
    saturated_core,
    starved_softirq,
    unneeded_agent,
    visible_leak,
    zombie_growth,
    zombie_population,
)


class RuleFile(Protocol):
    """What a file of `rules/` has to have."""

    FINDING: Declaration

    def judge(self, case: Case) -> Finding: ...


RULES: tuple[RuleFile, ...] = (
    nic_reset,
    starved_softirq,
    saturated_core,
    costly_sweep,
    costly_reclaim_walk,
    reclaim_pressure,
    cpu_throttling,
    zombie_population,
    zombie_growth,
    visible_leak,
    pinned_page_cache,
    pinned_shared_memory,
    pinned_swap,
    pinned_writeback,
    pinned_other,
    crash_looping_unit,
    looping_container,
    unneeded_agent,
    image_risk,
    cpu_steal,
    cpu_shortage,
    real_time_hog,
    oom_dumps,
    memory_shortage,
)
FINDINGS: Mapping[str, Declaration] = {rule.FINDING.id: rule.FINDING for rule in RULES}
