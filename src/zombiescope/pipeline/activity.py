# SPDX-License-Identifier: Apache-2.0
"""What is still going on on a host, for the planner: who makes zombies now, what starts it, and since when we look."""

from __future__ import annotations

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.growing import makers_that_grow
from zombiescope.facts.gap import Gap
from zombiescope.remedies.situation import Activity


def activity_of(case: Case, since: float | None = None) -> Activity:
    """Who makes more now, and what starts it. `since`: when the look began, where that was before the case's own window."""
    services = case.services
    growing = tuple(
        (maker, None if isinstance(services, Gap) else services.timer_of(maker.removeprefix("unit:")))
        for maker in makers_that_grow(case)
    )
    return Activity(growing=growing, since=case.first.snapshot.taken_at if since is None else since)
