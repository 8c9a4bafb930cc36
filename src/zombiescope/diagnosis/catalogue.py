# SPDX-License-Identifier: Apache-2.0
"""The list of rules, in the order in which findings are shown."""

from __future__ import annotations

from collections.abc import Callable

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Finding
from zombiescope.diagnosis.rules.nic_reset import judge_nic_reset
from zombiescope.diagnosis.rules.saturated_core import judge_saturated_core
from zombiescope.diagnosis.rules.visible_leak import judge_visible_leak
from zombiescope.diagnosis.rules.zombie_growth import judge_zombie_growth
from zombiescope.diagnosis.rules.zombie_population import judge_zombie_population

RULES: tuple[Callable[[Case], Finding], ...] = (
    judge_zombie_population,
    judge_zombie_growth,
    judge_visible_leak,
    judge_saturated_core,
    judge_nic_reset,
)
