# SPDX-License-Identifier: Apache-2.0
"""Zombies that become more: somebody leaks now. Steady births and deaths without a leak stay silent: their slope is zero within
its range. Judged by maker, so that a leak is seen below the noise of everybody else. A window too short to tell a wave from a leak
says so, and is a warning at most."""

from zombiescope.analysis.growth import Growth, Trend
from zombiescope.analysis.maker import maker_said
from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Declaration, Evidence, Finding, Role
from zombiescope.diagnosis.stock import Growing, change_of, growing_of, is_old_leak, stock_severity
from zombiescope.diagnosis.thresholds import Severity, Thresholds
from zombiescope.facts.gap import Gap
from zombiescope.facts.remedies import Remedy

FINDING = Declaration(
    id="zombie-growth",
    title="Zombies are growing",
    role=Role.MECHANISM,
    explained_by=("crash-looping-unit", "looping-container"),
    remedies=(Remedy.STOP_MAKER, Remedy.WATCH_LONGER),
    thing="a slow leak",
    link="zombies of {who} outnumber those that the kernel releases",
    somebody="an unknown maker",
    what="The number of zombies rises: somebody makes more now, faster than the kernel releases them.",
    matters="A leak fills up until it hurts, and freeing what is there does not help while more come.",
    do=(
        "Stop the maker that the finding names, or limit its restarts. If the window was short, watch for 180 "
        "seconds first: many deaths at once look the same for a minute."
    ),
    judged_by=(
        "growth_warning_per_hour",
        "growth_critical_per_hour",
        "growth_slow_per_hour",
        "growth_least",
        "growth_least_seconds",
    ),
    next="zombiescope doctor --seconds 180",
    proven_by="timer-leak",
    needs_title=True,
)
_HOUR = 3600


def judge(case: Case) -> Finding:
    growth, now = case.growth, growing_of(case)
    if isinstance(growth, Gap) or growth.total is None or growth.window_seconds < case.thresholds.growth_least_seconds:
        return _by_window(case, growth, now)
    leaking = [trend for trend in growth.makers if is_growing(trend, growth, case.thresholds)]
    if not leaking and not growth.are_makers_known and is_growing(growth.total, growth, case.thresholds):
        leaking = [growth.total]
    if leaking:
        per_hour = sum(trend.slope.per_second for trend in leaking) * _HOUR
        severity = Severity.CRITICAL if per_hour >= case.thresholds.growth_critical_per_hour else Severity.WARNING
        return _present(severity, _summary(leaking, per_hour), _evidence(growth, leaking), is_leak=True)
    if now:
        return _by_window(case, growth, now)
    summary = (
        f"no leak in {growth.window_seconds / 60:.0f} min: {growth.total.now:,} zombies, none of them steadily more"
    )
    return FINDING.absent(summary, _evidence(growth, ()))


def _by_window(case: Case, growth: Growth | Gap, now: Growing | None) -> Finding:
    if now is None:
        short = "too short to tell growth from noise"
        return FINDING.unknown(
            growth.reason if isinstance(growth, Gap) else f"{growth.window_seconds:.0f} s were watched: {short}"
        )
    is_leak = is_told_leak(case, now)
    per_hour = now.grown / max(now.seconds, 1e-9) * _HOUR
    is_fast = per_hour >= case.thresholds.growth_critical_per_hour
    severity = Severity.CRITICAL if is_leak and is_fast and not now.is_short else Severity.WARNING
    at = case.last.snapshot.taken_at
    evidence = (
        Evidence("grown", now.grown, f"zombies in {now.seconds:.0f} s", now.source, at),
        *(Evidence(f"maker[{maker}].grown", left, "zombies", now.source, at) for maker, left in now.makers[:3]),
    )
    population = case.last.scan.population
    is_stock = not isinstance(population, Gap) and stock_severity(case, population) is not Severity.OK
    return _present(severity, told_now(case, now), evidence, is_leak=is_leak or is_stock)


def is_told_leak(case: Case, now: Growing) -> bool:
    """Watched long enough, or left long before: no wave."""
    return now.seconds >= case.thresholds.growth_least_seconds or is_old_leak(case, now)


def told_now(case: Case, now: Growing) -> str:
    """With what to do where the window is too short."""
    text = f"{now.grown:,} more in {now.seconds:.0f} s{_by_count(case, now)}, {_made_by(case, now)}"
    if is_told_leak(case, now):
        return text
    least = case.thresholds.growth_least_seconds
    return f"{text}; too short to tell a wave from a leak: watch longer with zombiescope doctor --seconds {least:.0f}"


def _by_count(case: Case, now: Growing) -> str:
    """Events are watched for a part of the time between the two counts: both numbers, each with what it counts."""
    change = change_of(case)
    if change is None or change == now.grown:
        return ""
    seconds = case.last.snapshot.taken_at - case.first.snapshot.taken_at
    moved = "rose" if change >= 0 else "fell"
    return f" by events (the count {moved} by {abs(change):,} in {seconds:.0f} s)"


def _made_by(case: Case, now: Growing) -> str:
    if not now.makers:
        return "by an unknown maker"
    first = now.maker
    timer = None
    if not isinstance(case.services, Gap) and first.startswith("unit:"):
        timer = case.services.timer_of(first.removeprefix("unit:"))
    started = f" (started by {timer})" if timer else ""
    others = f" and {len(now.makers) - 1} more" if len(now.makers) > 1 else ""
    return f"made by {maker_said(first)}{started}{others}" + ("" if now.is_sure else f" ({now.source})")


def _present(severity: Severity, summary: str, evidence: tuple[Evidence, ...], *, is_leak: bool) -> Finding:
    return FINDING.present(severity, summary, evidence, FINDING.remedies[:1] if is_leak else FINDING.remedies[::-1])


def is_growing(trend: Trend, growth: Growth, thresholds: Thresholds) -> bool:
    """More than a handful above the old floor, and fast enough, at the low end of its range, for how long it was watched."""
    return trend.grown >= thresholds.growth_least and trend.slope.low * _HOUR >= thresholds.growth_needed(
        growth.window_seconds
    )


def _summary(leaking: list[Trend], per_hour: float) -> str:
    first = leaking[0]
    who = f"most by {first.maker}" if first.maker else "the maker is not known"
    more = f" and {len(leaking) - 1} others" if len(leaking) > 1 else ""
    return f"{per_hour:,.0f} more per hour, {who}{more}"


def _evidence(growth: Growth, leaking: list[Trend] | tuple[()]) -> tuple[Evidence, ...]:
    found = [Evidence("window", round(growth.window_seconds), "seconds", "history", growth.at)]
    for trend in leaking[:5]:
        name = trend.maker or "all"
        found += [
            Evidence(
                f"maker[{name}].per_hour",
                round(trend.slope.per_second * _HOUR, 1),
                "zombies per hour",
                "ledger",
                growth.at,
            ),
            Evidence(
                f"maker[{name}].per_hour_low",
                round(trend.slope.low * _HOUR, 1),
                "zombies per hour",
                "ledger",
                growth.at,
            ),
            Evidence(f"maker[{name}].grown", trend.grown, "cgroups", "ledger", growth.at),
            Evidence(f"maker[{name}].since", round(trend.since), "seconds since the epoch", "ledger", growth.at),
        ]
    found += [
        Evidence(f"forecast[{forecast.what}]", round(forecast.soonest_seconds), "seconds", "history", growth.at)
        for forecast in (*growth.forecasts[:3], *([growth.ids] if growth.ids else []))
    ]
    return tuple(found)
