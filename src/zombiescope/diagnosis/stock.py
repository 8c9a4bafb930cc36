# SPDX-License-Identifier: Apache-2.0
"""How bad the zombies of a host are, for every rule that asks: by their number, and at any number by the harm that was measured."""

from __future__ import annotations

from zombiescope.analysis.scan import Population
from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap

_ORDER = (Severity.OK, Severity.WARNING, Severity.CRITICAL)


def stock_severity(case: Case, population: Population) -> Severity:
    return max(case.thresholds.of_population(population), measured_harm(case, population), key=_ORDER.index)


def measured_harm(case: Case, population: Population) -> Severity:
    """What zombies were seen to cost in this window: reclaim that walks over them, or statistics that take long for them."""
    found = [Severity.OK]
    if not isinstance(case.reclaim, Gap) and case.reclaim.calls:
        from zombiescope.analysis.zombie_cost import Walking  # noqa: PLC0415 (a scan does not pay for it)
        from zombiescope.diagnosis.reclaim_work import harmful_walk  # noqa: PLC0415

        walk = harmful_walk(case, Walking.YES)
        found.append(walk[1] if walk else Severity.OK)
    sweep = case.first.snapshot.sweep
    if not isinstance(sweep, Gap) and population.zombies > population.live:
        from zombiescope.analysis.zombie_cost import derive_sweep_cost  # noqa: PLC0415

        cost = derive_sweep_cost(sweep)
        found.append(case.thresholds.of_sweep(cost.seconds) if cost.is_slow else Severity.OK)
    return max(found, key=_ORDER.index)
