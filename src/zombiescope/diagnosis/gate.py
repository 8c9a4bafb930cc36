# SPDX-License-Identifier: Apache-2.0
"""The gate: one verdict from what was measured and audited, its reasons, and the waivers that excuse some.

What could not be looked at is UNKNOWN, never OK. A waiver needs a reason and an end; after the end it excuses nothing.
"""

import fnmatch
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import date
from enum import StrEnum

from zombiescope.analysis.scan import Population
from zombiescope.diagnosis.audit import Audit, AuditSubject, UnitAudit
from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.limits import Limits
from zombiescope.diagnosis.loops import AUDITED_CHURN, audit_suspects, loop_severity
from zombiescope.diagnosis.rules import (
    costly_sweep,
    crash_looping_unit,
    image_risk,
    looping_container,
    unneeded_agent,
    visible_leak,
)
from zombiescope.diagnosis.stock import stock_severity
from zombiescope.diagnosis.thresholds import Severity, Thresholds, graded
from zombiescope.diagnosis.workload_audit import Need, WorkloadAudit
from zombiescope.facts.gap import Gap


class GateVerdict(StrEnum):
    OK = "OK"
    WARNING = "WARNING"
    CRITICAL = "CRITICAL"
    UNKNOWN = "UNKNOWN"

    @property
    def exit_code(self) -> int:
        """The monitoring-plugin convention."""
        return list(GateVerdict).index(self)


_VERDICTS = {
    Severity.OK: GateVerdict.OK,
    Severity.WARNING: GateVerdict.WARNING,
    Severity.CRITICAL: GateVerdict.CRITICAL,
}
_ORDER = (GateVerdict.OK, GateVerdict.UNKNOWN, GateVerdict.WARNING, GateVerdict.CRITICAL)


@dataclass(frozen=True, slots=True)
class Waiver:
    what: str
    """A reason, or a pattern of several: `unneeded-agent:snapd*`."""
    reason: str
    expires: date
    owner: str = ""

    @property
    def told(self) -> str:
        return f"{self.reason}; owner: {self.owner or 'nobody is named'}"


@dataclass(frozen=True, slots=True)
class WaiverState:
    """A waiver, and what it did this time."""

    waiver: Waiver
    state: str
    """used, unused or ended."""


@dataclass(frozen=True, slots=True)
class GateReason:
    what: str
    value: float | None
    threshold: float | None
    verdict: GateVerdict
    summary: str
    source: str = ""
    """The file or the counter that says so."""
    waiver: Waiver | None = None

    @property
    def rule(self) -> str:
        return self.what.partition(":")[0]

    @property
    def is_waived(self) -> bool:
        return self.waiver is not None


@dataclass(frozen=True, slots=True)
class GrowthSeen:
    """What a window showed: zombies at its ends and the slope between."""

    seconds: float
    first: int
    highest: int
    per_hour: float


@dataclass(frozen=True, slots=True)
class Gate:
    verdict: GateVerdict
    reasons: tuple[GateReason, ...]
    not_judged: tuple[str, ...] | None = ()
    """Services that start and of which nobody could say whether they are needed; None: the services were not judged at all."""
    waivers: tuple[WaiverState, ...] = ()
    """Every one that was given."""

    @property
    def failing(self) -> list[GateReason]:
        return [reason for reason in self.reasons if reason.verdict is not GateVerdict.OK]


def judge_gate(
    reasons: Iterable[GateReason],
    waivers: tuple[Waiver, ...],
    today: date,
    not_judged: tuple[str, ...] | None = (),
) -> Gate:
    judged = tuple(_with_waiver(reason, waivers, today) for reason in reasons)
    verdict = max((reason.verdict for reason in judged), key=_ORDER.index, default=GateVerdict.UNKNOWN)
    ordered = sorted(judged, key=lambda reason: -_ORDER.index(reason.verdict))
    used = {reason.waiver for reason in judged if reason.waiver}
    states = [
        WaiverState(one, "ended" if one.expires < today else ("used" if one in used else "unused")) for one in waivers
    ]
    return Gate(verdict, tuple(ordered), not_judged, tuple(states))


def _with_waiver(reason: GateReason, waivers: tuple[Waiver, ...], today: date) -> GateReason:
    matching = [waiver for waiver in waivers if fnmatch.fnmatchcase(reason.what, waiver.what)]
    if reason.verdict not in (GateVerdict.WARNING, GateVerdict.CRITICAL) or not matching:
        return reason
    longest = max(matching, key=lambda waiver: waiver.expires)
    if longest.expires < today:
        return replace(reason, summary=f"{reason.summary} (its waiver ended on {longest.expires}: {longest.told})")
    summary = f"{reason.summary} (waived until {longest.expires}: {longest.told})"
    return replace(reason, verdict=GateVerdict.OK, summary=summary, waiver=longest)


def unknown(what: str, gap: Gap) -> GateReason:
    tail = f" ({gap.hint})" if gap.hint else ""
    return GateReason(what, None, None, GateVerdict.UNKNOWN, f"could not look: {gap.reason}{tail}")


def judge_counts(case: Case) -> list[GateReason]:
    """All that one look tells, by the rules of `scan` and `doctor`: the stock, what it was seen to cost, and directories."""
    population = case.last.scan.population
    limits, reasons = case.thresholds, judge_population(population, case.thresholds)
    sweep = case.first.snapshot.sweep
    if not isinstance(sweep, Gap):
        found = costly_sweep.judge(case)
        limit = limits.sweep_critical_seconds if found.severity is Severity.CRITICAL else limits.sweep_warning_seconds
        verdict, value = _VERDICTS[found.severity], round(sweep.seconds, 6)
        reasons.append(GateReason("sweep", value, limit, verdict, found.summary, "timed"))
    if not isinstance(population, Gap) and not isinstance(case.reclaim, Gap):
        reasons += _reclaim(case, population)
    return [*reasons, _directories(case)]


def _reclaim(case: Case, population: Population) -> list[GateReason]:
    """Only where reclaim was seen to walk over them: the stock is worse then than its number."""
    by_count, severity = case.thresholds.of_population(population), stock_severity(case, population)
    if severity is by_count:
        return []
    summary = f"{population.zombies:,} zombies hold a core of this host: zombiescope doctor tells by what"
    return [GateReason("harm", population.zombies, 1, _VERDICTS[severity], summary, population.source)]


def _directories(case: Case) -> GateReason:
    found, empties = visible_leak.judge(case), case.last.scan.empty_directories
    if found.severity is Severity.UNKNOWN:
        return unknown("directories", empties if isinstance(empties, Gap) else Gap("visible_leak", found.summary))
    limits = case.thresholds
    limit = (
        limits.empty_directories_critical if found.severity is Severity.CRITICAL else limits.empty_directories_warning
    )
    value = found.evidence[0].value
    assert isinstance(value, int)
    return GateReason("directories", value, limit, _VERDICTS[found.severity], found.summary, found.evidence[0].source)


def judge_population(population: Population | Gap, limits: Thresholds) -> list[GateReason]:
    if isinstance(population, Gap):
        return [unknown("zombies", population), unknown("ratio", population)]
    summary = f"{population.zombies:,} zombies: {population.counted:,} memory cgroups counted, {population.live:,} live"
    severity = limits.of_zombies(population.zombies)
    limit = limits.zombies_critical if severity is Severity.CRITICAL else limits.zombies_warning
    return [
        GateReason("zombies", population.zombies, limit, _VERDICTS[severity], summary, population.source),
        _ratio(population, limits),
        *([_expected(population, limits)] if limits.expected_live > 0 else []),
    ]


def _expected(population: Population, limits: Thresholds) -> GateReason:
    most, severity = limits.expected_multiple * limits.expected_live, limits.of_expected(population)
    summary = f"{population.counted:,} counted where {limits.expected_live:,.10g} live ones are expected"
    if severity is Severity.OK and population.counted >= most:
        summary += f", which says nothing below {limits.expected_live:,.10g} zombies: the host is busier than expected"
    else:
        summary += f"; {limits.expected_multiple:,.10g} times as many are a warning"
    return GateReason("expected", population.counted, most, _VERDICTS[severity], summary, population.source)


def _ratio(population: Population, limits: Thresholds) -> GateReason:
    severity, value = limits.of_ratio(population), round(population.ratio, 3)
    summary = f"{population.ratio:.1f} counted for each live one"
    if severity is Severity.OK and population.ratio >= limits.ratio_warning:
        summary += f", which says nothing below {limits.ratio_least_zombies:,.10g} zombies"
    elif severity is Severity.WARNING and population.ratio >= limits.ratio_critical:
        summary += f", which is not critical below {limits.ratio_critical_zombies:,.10g} zombies"
    limit = limits.ratio_critical if severity is Severity.CRITICAL else limits.ratio_warning
    return GateReason("ratio", value, limit, _VERDICTS[severity], summary, population.source)


def judge_growth(growth: GrowthSeen | Gap, limits: Thresholds) -> GateReason:
    if isinstance(growth, Gap):
        return unknown("growth", growth)
    value, warning, critical = (
        round(growth.per_hour, 1),
        limits.growth_warning_per_hour,
        limits.growth_critical_per_hour,
    )
    severity = graded(value, warning, critical)
    limit = critical if severity is Severity.CRITICAL else warning
    grown = growth.highest - growth.first
    summary = (
        f"{growth.per_hour:+,.0f} zombies per hour over {growth.seconds:.0f} s (from {growth.first:,}, at most "
        f"{growth.highest:,})"
    )
    if grown < limits.growth_least and severity is not Severity.OK:
        severity = Severity.OK
        summary += (
            f": {max(grown, 0):,} more are too few to tell growth from noise, which takes {limits.growth_least:,.10g}"
        )
    least = limits.growth_least_seconds
    if severity is Severity.CRITICAL and growth.seconds < least:
        severity, limit = Severity.WARNING, warning
        summary += f": too short to tell a wave from a leak, which takes {least:.0f} s (check --for {least:.0f}s)"
    return GateReason("growth", value, limit, _VERDICTS[severity], summary)


def judge_units(audit: Audit, limits: Limits) -> list[GateReason]:
    plain = [unit for unit in audit.unneeded if not unit.is_risk]
    reasons = [
        *(_loop_reasons(audit, limits) if audit.subject is AuditSubject.HOST else ()),
        *(_unit_reason(image_risk.FINDING.id, unit, _of_agent(unit), _how(unit)) for unit in audit.risks),
        *(_unit_reason(unneeded_agent.FINDING.id, unit, _of_agent(unit), "") for unit in plain),
        *(_unsure_reason(unit) for unit in audit.not_judged if unit.may_loop or unit.policy.can_loop is None),
        *(_declared_reason(unit) for unit in audit.starting if unit.is_declared and unit.may_loop),
        *judge_workloads(audit),
    ]
    if audit.cannot_tell and audit.subject is not AuditSubject.HOST:
        hint = "give the root of a whole system that systemd runs; as root more can be read"
        reasons.append(unknown("audit", Gap("units", audit.cannot_tell, hint)))
    elif not audit.unneeded and not audit.cannot_tell and audit.subject is not AuditSubject.MANIFESTS:
        summary = f"none of {len(audit.starting)} services that start is unneeded"
        reasons.append(GateReason("unneeded-agent", 0, 1, GateVerdict.OK, summary))
    return reasons


def judge_workloads(audit: Audit) -> list[GateReason]:
    """Containers, pods, supervised programs and schedules: what fails, and one line for those that are well."""
    reasons = [_workload_reason(one) for one in audit.workloads if one.starts and _fails(one)]
    if audit.unread_workloads:
        first, count = audit.unread_workloads[0], len(audit.unread_workloads)
        more = f", and {count - 1} more" if count > 1 else ""
        reasons.append(unknown("workloads", first._replace(reason=f"{first.reason}{more}")))
    well = [one for one in audit.workloads if one.starts and not _fails(one) and one.workload.is_container]
    if well and len(reasons) == 0:
        count = sum(one.may_loop for one in well)
        summary = f"{len(well)} declared containers, {count} of them restarted for ever: all are needed"
        reasons.append(GateReason("workloads", 0, 1, GateVerdict.OK, summary))
    elif audit.subject is AuditSubject.MANIFESTS and not audit.workloads and not reasons:
        reasons.append(
            unknown("workloads", Gap("workloads", "no workload is declared there", "is it the right folder?"))
        )
    return reasons


def _fails(one: WorkloadAudit) -> bool:
    return one.is_unsure or one.need is Need.UNNEEDED


def _workload_reason(one: WorkloadAudit) -> GateReason:
    path = one.workload.path
    if one.need is Need.UNNEEDED:
        rule, how = (image_risk, f"; {one.lives.why}") if one.is_risk else (unneeded_agent, "")
        summary = f"{one.name} is not needed: {one.why}{how}"
        return GateReason(f"{rule.FINDING.id}:{one.name}", 1, 1, _of_agent(one), summary, path)
    if one.lives.for_ever is None:
        summary = f"{one.name}: can it be restarted for ever? {one.lives.why}; is it needed? {one.why}"
        return GateReason(f"loop-risk:{one.name}", None, None, GateVerdict.UNKNOWN, summary, path)
    summary = f"{one.name} may be started for ever ({one.lives.why}); is it needed? {one.why}"
    return GateReason(f"loop-risk:{one.name}", 1, 1, GateVerdict.WARNING, summary, path)


def _loop_reasons(audit: Audit, limits: Limits) -> list[GateReason]:
    """By what the rules of `doctor` say of each, and by how many there are."""
    kinds = crash_looping_unit.FINDING.loops | looping_container.FINDING.loops
    judged = [(each, loop_severity(each, limits.thresholds, AUDITED_CHURN)) for each in audit_suspects(audit, kinds)]
    found = [(each.loop, severity) for each, severity in judged if severity is not Severity.OK]
    if not found:
        seen = "" if audit.was_systemd_asked else " (systemd was not asked: cgroups and containers only)"
        summary = f"nothing was seen to be restarted over and over{seen}"
        return [GateReason("looping-unit", 0, limits.loops_warning, GateVerdict.OK, summary)]
    return [
        GateReason(
            f"{'looping-unit' if loop.kind in ('unit', 'inside') else 'looping-container'}:{loop.name}",
            loop.restarts,
            limits.loops_warning,
            _of_loop(severity, len(found), limits),
            f"{loop.name}: {loop.why}",
            loop.source,
        )
        for loop, severity in found
    ]


def _of_loop(severity: Severity, number: int, limits: Limits) -> GateVerdict:
    if number < limits.loops_warning:
        return GateVerdict.OK
    return GateVerdict.CRITICAL if number >= limits.loops_critical else _VERDICTS[severity]


def _unit_reason(rule: str, unit: UnitAudit, verdict: GateVerdict, more: str) -> GateReason:
    summary = f"{unit.name} is {unit.enabled} and not needed: {unit.why}" + (f"; {more}" if more else "")
    return GateReason(f"{rule}:{unit.name}", 1, 1, verdict, summary, unit.path)


def _unsure_reason(unit: UnitAudit) -> GateReason:
    what = f"loop-risk:{unit.name}"
    if not unit.may_loop:
        summary = (
            f"{unit.name} is {unit.enabled}: can it be restarted for ever? {unit.policy.why}; is it needed? {unit.why}"
        )
        return GateReason(what, None, None, GateVerdict.UNKNOWN, summary, unit.path)
    summary = f"{unit.name} is {unit.enabled} and may be restarted for ever ({_how(unit)}); is it needed? {unit.why}"
    return GateReason(what, 1, 1, GateVerdict.WARNING, summary, unit.path)


def _declared_reason(unit: UnitAudit) -> GateReason:
    summary = f"{unit.name} is {unit.enabled} and may be restarted for ever ({_how(unit)}); {unit.why}"
    return GateReason(f"loop-risk:{unit.name}", 0, 1, GateVerdict.OK, summary, unit.path)


def _how(unit: UnitAudit) -> str:
    return image_risk.told_risk(unit.loop_why, unit.policy.restarts_per_day)


def _of_agent(agent: UnitAudit | WorkloadAudit) -> GateVerdict:
    return _VERDICTS[unneeded_agent.severity_of(agent)]
