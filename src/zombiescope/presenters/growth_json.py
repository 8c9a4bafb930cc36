# SPDX-License-Identifier: Apache-2.0
"""`growth` of scan/1 and history/1: how fast, since when, to which threshold, when it is reached."""

from __future__ import annotations

from zombiescope.analysis.growth import Growth
from zombiescope.facts.gap import Gap
from zombiescope.presenters.document import Json, rfc3339

FIELDS = ("per_hour", "since", "threshold", "reached_at")


def render_growth(growth: Growth | Gap) -> Json:
    if isinstance(growth, Gap) or growth.total is None:
        return dict.fromkeys(FIELDS)
    trend = growth.total
    first = growth.forecasts[0] if growth.forecasts else None
    return {
        "per_hour": round(trend.slope.per_second * 3600, 2),
        "since": rfc3339(trend.since),
        "threshold": round(first.mark) if first else None,
        "reached_at": rfc3339(growth.at + first.soonest_seconds) if first else None,
    }


def growth_gaps(growth: Growth | Gap, prefix: str = "growth") -> list[Gap]:
    """One for each field that is null."""
    if isinstance(growth, Gap):
        return [growth.about(f"{prefix}.{name}") for name in FIELDS]
    if growth.total is None:
        short = Gap(prefix, "too little was watched to tell growth from noise", "look again in some minutes")
        return [short.about(f"{prefix}.{name}") for name in FIELDS]
    if growth.forecasts:
        return []
    still = Gap(prefix, "nothing grows towards a threshold")
    return [still.about(f"{prefix}.{name}") for name in FIELDS[2:]]
