# SPDX-License-Identifier: Apache-2.0
"""Zombies that become more: somebody leaks now. Steady births and deaths without a leak stay silent: their slope is nought within
its range. Judged by maker, so that a leak is seen below the noise of everybody else."""

from __future__ import annotations

from zombiescope.analysis.growth import Growth, Trend
from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Evidence, Finding, Role, Verdict
from zombiescope.diagnosis.thresholds import Severity, Thresholds
from zombiescope.facts.gap import Gap

ID = "zombie-growth"
TITLE = "Zombies are growing"
_HOUR = 3600


def judge_zombie_growth(case: Case) -> Finding:
    growth = case.growth
    if isinstance(growth, Gap):
        return Finding(ID, Verdict.UNKNOWN, Severity.UNKNOWN, Role.MECHANISM, TITLE, growth.reason, ())
    if growth.total is None or growth.window_seconds < case.thresholds.growth_least_seconds:
        why = f"{growth.window_seconds:.0f} s were watched: too short to tell growth from noise"
        return Finding(ID, Verdict.UNKNOWN, Severity.UNKNOWN, Role.MECHANISM, TITLE, why, ())
    leaking = [trend for trend in growth.makers if is_growing(trend, growth, case.thresholds)]
    if not leaking and not growth.are_makers_known and is_growing(growth.total, growth, case.thresholds):
        leaking = [growth.total]
    if not leaking:
        summary = (
            f"no leak in {growth.window_seconds / 60:.0f} min: {growth.total.now:,} zombies, none of them steadily more"
        )
        return Finding(ID, Verdict.ABSENT, Severity.OK, Role.MECHANISM, TITLE, summary, _evidence(growth, ()))
    per_hour = sum(trend.slope.per_second for trend in leaking) * _HOUR
    severity = Severity.CRITICAL if per_hour >= case.thresholds.growth_critical_per_hour else Severity.WARNING
    return Finding(
        ID, Verdict.PRESENT, severity, Role.MECHANISM, TITLE, _summary(leaking, per_hour), _evidence(growth, leaking)
    )


def is_growing(trend: Trend, growth: Growth, thresholds: Thresholds) -> bool:
    """More than a handful above the old floor, and fast enough, at the low end of its range, for how long it was watched."""
    return trend.grown >= thresholds.growth_least and trend.slope.low * _HOUR >= thresholds.growth_needed(
        growth.window_seconds
    )


def _summary(leaking: list[Trend], per_hour: float) -> str:
    first = leaking[0]
    who = f"most by {first.maker}" if first.maker else "by whom is not known"
    more = f" and {len(leaking) - 1} others" if len(leaking) > 1 else ""
    return f"{per_hour:,.0f} more an hour, {who}{more}"


def _evidence(growth: Growth, leaking: list[Trend] | tuple[()]) -> tuple[Evidence, ...]:
    found = [Evidence("window", round(growth.window_seconds), "seconds", "history", growth.at)]
    for trend in leaking[:5]:
        name = trend.maker or "all"
        found += [
            Evidence(
                f"maker[{name}].per_hour",
                round(trend.slope.per_second * _HOUR, 1),
                "zombies an hour",
                "ledger",
                growth.at,
            ),
            Evidence(
                f"maker[{name}].per_hour_low", round(trend.slope.low * _HOUR, 1), "zombies an hour", "ledger", growth.at
            ),
            Evidence(f"maker[{name}].grown", trend.grown, "cgroups", "ledger", growth.at),
            Evidence(f"maker[{name}].since", round(trend.since), "seconds since the epoch", "ledger", growth.at),
        ]
    for forecast in [*growth.forecasts[:3], *([growth.ids] if growth.ids else [])]:
        found.append(
            Evidence(f"forecast[{forecast.what}]", round(forecast.soonest_seconds), "seconds", "history", growth.at)
        )
    return tuple(found)
