# SPDX-License-Identifier: Apache-2.0
"""`zombiescope.now/1`: the doctor's answer as the first view of the page: verdict, chain, first remedy, six numbers, unknowns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from zombiescope.analysis.day import Day, DayLine
from zombiescope.analysis.growth import Growth
from zombiescope.analysis.nic_resets import derive_resets
from zombiescope.analysis.scan import KernelCost
from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.engine import Diagnosis
from zombiescope.diagnosis.finding import Evidence, Finding, Verdict
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap
from zombiescope.presenters.doctor_report import case_gaps, frees, last_gaps, render_finding, told_first, value_of
from zombiescope.presenters.document import Json, document, missing, one_per_field
from zombiescope.presenters.figures import UNKNOWN, count, duration, fact_label, gap_subject, size
from zombiescope.presenters.plan_json import HERE, Asked, apply_command
from zombiescope.remedies.plan import AskHuman, Plan, Step

UNDO_WORDS = {
    "exact": "exact: everything comes back as it was",
    "restart": "by starting it again",
    "none": "none: it cannot be undone",
}
_HOUR = 3600.0
_DAY_SECONDS = 86_400.0


class Now(NamedTuple):
    case: Case
    diagnosis: Diagnosis
    plan: Plan | Gap
    day: Day | Gap
    how: str = ""
    """How the zombies were seen."""
    asked: Asked = HERE


def render_now(now: Now) -> Json:
    case, diagnosis = now.case, now.diagnosis
    taken_at = case.last.snapshot.taken_at
    gaps = one_per_field([*last_gaps(case), *case_gaps(case)])
    if not isinstance(case.growth, Gap):  # one look cannot tell; the history did
        gaps = [gap for gap in gaps if not gap.fact.startswith("growth")]
    body: Json = {
        "at": taken_at,
        "verdict": diagnosis.verdict,
        "severity": diagnosis.worst,
        "disease": diagnosis.disease,
        "since": _since(now),
        "chains": [list(chain) for chain in diagnosis.chains],
        "findings": [render_shown_finding(finding) for finding in diagnosis.findings],
        "origin": diagnosis.origin,
        "maker": diagnosis.maker,
        "in_vain": [{"what": advice.what, "why": advice.why} for advice in diagnosis.useless],
        "remedy": render_first(diagnosis, now.plan, now.asked),
        "numbers": _numbers(now),
        "unknowns": [*_unjudged(diagnosis), *render_unknowns(gaps)],
        "looked_for": [finding.id for finding in diagnosis.findings if finding.verdict is Verdict.ABSENT],
        "last_change": _last_change(now.day),
        "how": now.how,
    }
    gaps += [*missing(now.plan, "remedy"), *missing(now.day, "numbers[].day")]
    return document("now/1", case.last.snapshot, body, gaps)


def render_shown_finding(finding: Finding) -> Json:
    rendered = render_finding(finding)
    for item, evidence in zip(rendered["evidence"], finding.evidence, strict=True):
        item["text"] = _text_of(evidence)
        item["label"] = fact_label(evidence.fact)
    return rendered


def _text_of(item: Evidence) -> str:
    if item.value is None:
        return UNKNOWN
    if item.unit in ("seconds", "s") and isinstance(item.value, int | float):
        return duration(float(item.value))
    if item.unit == "of the core" and isinstance(item.value, int | float):
        return f"{item.value:.0%} of the core"
    text = value_of(item)
    return text if item.unit in ("", "bytes") else f"{text} {item.unit}"


def _since(now: Now) -> float | None:
    if isinstance(now.day, Gap):
        return None
    limits = now.case.thresholds
    mark = {Severity.CRITICAL: limits.zombies_critical, Severity.WARNING: limits.zombies_warning}
    found = next((each for each in now.diagnosis.findings if each.id == "zombie-population"), None)
    if found is None or found.verdict is not Verdict.PRESENT or found.severity not in mark:
        return None
    return now.day.above_since(mark[found.severity], now.case.last.snapshot.taken_at)


def _last_change(day: Day | Gap) -> Json | None:
    if isinstance(day, Gap) or day.last_change is None:
        return None
    change = day.last_change
    words = "came" if change.what == "finding-present" else "went"
    name, _, rest = change.detail.partition(": ")
    return {"at": change.at, "words": f"{name} {words}{f': {rest}' if rest else ''}"}


def render_first(diagnosis: Diagnosis, plan: Plan | Gap, asked: Asked = HERE) -> Json | None:
    """The step against the origin, or the first of the plan; where there is no plan, what is known to help, in words."""
    told = told_first(diagnosis, plan)
    if isinstance(plan, Gap) or not plan.own_steps:
        return {"title": told, "steps": 0, "look_first": "sudo zombiescope plan", "do_it": None} if told else None
    against = [each for each in plan.steps if each.finding == diagnosis.origin]
    step = next((each for each in against if not each.is_for_people), against[0] if against else plan.own_steps[0])
    look_first: str | None = f"sudo {apply_command((), asked, really=False)}"
    do_it: str | None = f"sudo {apply_command(plan.consents, asked, really=True)}"
    if isinstance(step.change, AskHuman):  # whoever makes them is stopped by people, and before anything is freed
        look_first, do_it = None, next(iter(step.change.commands), None)
    return {
        "title": step.title,
        "why": step.why,
        "name": step.name,
        "zombies_freed": step.expected.zombies_freed if step.expected else None,
        "bytes_freed": step.expected.bytes_freed if step.expected else None,
        "frees": told_frees(step),
        "risk": step.risk,
        "undo": step.undo,
        "undo_words": UNDO_WORDS[step.undo],
        "steps": len(plan.steps if step.is_for_people else plan.own_steps),
        "look_first": look_first,
        "do_it": do_it,
        "elsewhere": asked.is_elsewhere,
        "steps_of": [{"n": each.n, "title": each.title, "risk": each.risk} for each in plan.steps],
    }


def told_frees(step: Step) -> str:
    held = step.expected.bytes_freed if step.expected else None
    words = frees(step)
    return f"{words}, {size(held)}" if words and held is not None else words or "nothing by itself"


def _unjudged(diagnosis: Diagnosis) -> list[Json]:
    return [
        {"question": f"{finding.title}?", "fact": f"findings[{finding.id}]", "reason": finding.summary, "hint": ""}
        for finding in diagnosis.findings
        if finding.verdict is Verdict.UNKNOWN
    ]


def render_unknowns(gaps: Iterable[Gap]) -> list[Json]:
    """Fields that share a reason are one unknown."""
    by_reason: dict[tuple[str, str], list[str]] = {}
    for gap in gaps:
        by_reason.setdefault((gap.reason, gap.hint), []).append(gap.fact)
    return [
        {
            "question": ", ".join(dict.fromkeys(map(gap_subject, facts))),
            "fact": facts[0],
            "reason": reason,
            "hint": hint,
        }
        for (reason, hint), facts in by_reason.items()
    ]


def _numbers(now: Now) -> list[Json]:
    return [_zombies(now), _growth(now), _forecast(now), _kernel(now), _saturated(now), _resets(now)]


class _Figure(NamedTuple):
    value: float | None
    unit: str
    text: str
    suffix: str = ""
    note: str = ""
    severity: str = Severity.OK
    gap: Gap | None = None


def _number(now: Now, name: str, title: str, figure: _Figure, line: DayLine | None, **more: object) -> Json:
    day = now.day
    at = now.case.last.snapshot.taken_at
    gap = figure.gap or (day if isinstance(day, Gap) else None)
    return {
        "id": name,
        "title": title,
        **figure._asdict(),
        "gap": None if gap is None else {"reason": gap.reason, "hint": gap.hint},
        "day": None
        if line is None
        else {
            "from": line.begin,
            "to": max(line.end, at),
            "points": len(line.low),
            "low": _short(line.low),
            "high": _short(line.high),
            "kind": more.pop("kind", "line"),
        },
        **more,
    }


def _short(values: Iterable[float | None]) -> list[float | None]:
    return [None if value is None else round(value) if value == round(value) else round(value, 3) for value in values]


def _unknown(gap: Gap, unit: str) -> _Figure:
    return _Figure(None, unit, UNKNOWN, severity=Severity.UNKNOWN, gap=gap)


def _unknown_growth(growth: Growth | Gap, unit: str) -> _Figure:
    short = Gap("growth", "too little was watched to tell growth from noise")
    return _unknown(growth if isinstance(growth, Gap) else short, unit)


def _severity(now: Now, finding: str) -> str:
    found = next((each for each in now.diagnosis.findings if each.id == finding), None)
    return found.severity if found is not None and found.verdict is Verdict.PRESENT else Severity.OK


def _mark(now: Now) -> tuple[int, str]:
    """The next limit, or the highest."""
    limits, population = now.case.thresholds, now.case.last.scan.population
    if not isinstance(population, Gap) and population.zombies < limits.zombies_warning:
        return limits.zombies_warning, f"warning from {limits.zombies_warning:,}"
    return limits.zombies_critical, f"critical from {limits.zombies_critical:,}"


def _zombies(now: Now) -> Json:
    population = now.case.last.scan.population
    mark, words = _mark(now)
    line = None if isinstance(now.day, Gap) else now.day.zombies(now.case.last.snapshot.taken_at)
    if isinstance(population, Gap):
        figure = _unknown(population, "cgroups")
    else:
        ratio = f"{population.counted:,} counted, {population.live:,} live"
        severity = _severity(now, "zombie-population")
        figure = _Figure(population.zombies, "cgroups", count(population.zombies), "", f"{words}; {ratio}", severity)
    return _number(now, "zombies", "Zombies", figure, line, limit={"value": mark, "words": words})


def _growth(now: Now) -> Json:
    growth = now.case.growth
    line = None if isinstance(now.day, Gap) else now.day.growth(now.case.last.snapshot.taken_at)
    if isinstance(growth, Gap) or growth.total is None:
        return _number(now, "growth", "Growth", _unknown_growth(growth, "per hour"), line)
    per_hour = growth.total.slope.per_second * _HOUR
    rounded = round(per_hour)
    text = f"{rounded:+,}" if rounded else "0"
    makers = ", ".join(trend.maker or "" for trend in growth.makers[:2])
    note = f"by {makers}" if makers else f"over the last {duration(growth.window_seconds)}"
    severity = _severity(now, "zombie-growth")
    return _number(
        now, "growth", "Growth", _Figure(per_hour, "per hour", text, "per hour", note, severity), line, kind="rate"
    )


def _forecast(now: Now) -> Json:
    growth = now.case.growth
    line = None if isinstance(now.day, Gap) else now.day.zombies(now.case.last.snapshot.taken_at)
    mark, words = _mark(now)
    return _number(
        now, "forecast", "Forecast", _forecast_figure(growth), line, limit={"value": mark, "words": words}, ahead=True
    )


def _forecast_figure(growth: Growth | Gap) -> _Figure:
    if isinstance(growth, Gap) or growth.total is None:
        return _unknown_growth(growth, "seconds")
    if not growth.forecasts:
        return _Figure(None, "seconds", "flat", "", "no limit ahead")
    soonest = growth.forecasts[0]
    latest = "" if soonest.latest_seconds is None else f" to {duration(soonest.latest_seconds)}"
    note = f"{soonest.mark:,.0f} ({soonest.what}) in {duration(soonest.soonest_seconds)}{latest}"
    return _Figure(soonest.soonest_seconds, "seconds", duration(soonest.soonest_seconds), "", note, Severity.WARNING)


def _kernel(now: Now) -> Json:
    cost = now.case.last.scan.kernel_cost
    if isinstance(cost, Gap):
        return _number(now, "kernel_bytes", "Kernel memory held", _unknown(cost, "bytes"), None)
    each = KernelCost(1, cost.cpus, cost.nodes).total_bytes
    line = None if isinstance(now.day, Gap) else now.day.zombies(now.case.last.snapshot.taken_at).scaled(each)
    text, _, unit = size(cost.total_bytes).partition(" ")
    note = f"an estimate: {size(each)} per zombie"
    return _number(
        now, "kernel_bytes", "Kernel memory held", _Figure(cost.total_bytes, "bytes", text, unit, note), line
    )


def _saturated(now: Now) -> Json:
    cores = now.case.cores
    line = None if isinstance(now.day, Gap) else now.day.saturated(now.case.last.snapshot.taken_at)
    title = "Saturated cores"
    if isinstance(cores, Gap):
        return _number(now, "saturated_seconds", title, _unknown(cores, "seconds"), line, kind="bars")
    longest = cores.longest
    note = f"core {longest.core}: {duration(longest.seconds)} without a break" if longest else "no core was saturated"
    text = f"{cores.saturated_seconds:.1f}" if cores.saturated_seconds else "none"
    suffix = f"s of the last {duration(cores.seconds)}" if cores.saturated_seconds else f"in {duration(cores.seconds)}"
    severity = _severity(now, "saturated-core")
    figure = _Figure(cores.saturated_seconds, "seconds", text, suffix, note, severity)
    return _number(now, "saturated_seconds", title, figure, line, kind="bars")


def _resets(now: Now) -> Json:
    log, at = now.case.kernel_log, now.case.last.snapshot.taken_at
    line = None if isinstance(now.day, Gap) else now.day.resets(at)
    title, severity = "Network resets", _severity(now, "nic-reset")
    if not isinstance(log, Gap):
        begin = max(log.since, at - _DAY_SECONDS)
        found = [each for each in derive_resets(log.events) if each.at >= begin]
        span = f"in {duration(max(at - begin, 0.0))}"
        note = ", ".join(dict.fromkeys(each.device for each in found[-3:])) if found else "by the kernel's log"
        figure = _Figure(len(found), "", count(len(found)) if found else "none", span, note, severity)
        return _number(now, "nic_resets", title, figure, line, kind="bars")
    known = [value for value in line.high if value is not None] if line else []
    if not known:
        return _number(now, "nic_resets", title, _unknown(log, ""), line, kind="bars")
    total = round(sum(known))
    figure = _Figure(total, "", count(total) if total else "none", "in the time kept", "by the agent", severity)
    return _number(now, "nic_resets", title, figure, line, kind="bars")
