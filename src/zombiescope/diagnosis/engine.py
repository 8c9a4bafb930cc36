# SPDX-License-Identifier: Apache-2.0
"""Runs the rules over a case and says in one sentence which disease this is; and whether a node is to be called under pressure, in
a cluster's words: status, a reason that can be searched, a message.

Pressure is a stock above its limits, or its measured harm; growth alone is not, nor is a workload that loops. It changes only when
the other answer has held without a break.
"""

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Finding, Verdict
from zombiescope.diagnosis.rules import visible_leak, zombie_growth, zombie_population
from zombiescope.diagnosis.thresholds import SEVERITIES, Severity, worst_of
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import zombies_said
from zombiescope.facts.remedies import Remedy

if TYPE_CHECKING:
    from zombiescope.diagnosis.catalogue import UselessAdvice

_COUNTED = (zombie_population.FINDING.id, visible_leak.FINDING.id)
_SWEEP = "costly-sweep"
_GLANCED = (*_COUNTED, zombie_growth.FINDING.id, _SWEEP)
"""What counts, history and one sweep tell. Their worst is the severity of `scan`, and that of the counts of `check`."""


class Disease(StrEnum):
    ZOMBIES = "zombies"
    DIRECTORIES = "directories"
    BOTH = "both"
    NONE = "none"
    UNKNOWN = "unknown"


NONE, UNTOLD = "none", "unknown"
_HEALTHY = "healthy: "
_MANY_UNKNOWN = 0.25
"""Of all checks: with more unknown, nothing wrong was seen, which is not the same as healthy."""


class Diagnosis(NamedTuple):
    disease: Disease
    verdict: str
    findings: tuple[Finding, ...]
    origin: str = UNTOLD
    """The finding at the root of the chain; `none`, or `unknown` where it could not be told."""
    maker: str = ""
    """Who made it, where somebody is to be named."""
    chains: tuple[tuple[str, ...], ...] = ()
    """From what hurts to its root, the worst first."""
    first_remedy: str = ""
    useless: "tuple[UselessAdvice, ...]" = ()

    def finding(self, wanted: str) -> Finding:
        return next(finding for finding in self.findings if finding.id == wanted)

    @property
    def present(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.verdict is Verdict.PRESENT)

    @property
    def worst(self) -> Severity:
        """What nobody could watch makes nothing worse; what could not be counted does."""
        return _worst(self.findings)

    @property
    def glanced(self) -> Severity:
        """How bad the stock is, its growth and its cost, whatever else is the matter."""
        return _worst(finding for finding in self.findings if finding.id in _GLANCED)


def _worst(findings: Iterable[Finding]) -> Severity:
    told = [each for each in findings if each.verdict is not Verdict.UNKNOWN or each.id in _COUNTED]
    return worst_of(finding.severity for finding in told)


def at_least(severity: Severity, limit: Severity) -> bool:
    return SEVERITIES.index(severity) >= SEVERITIES.index(limit)


def glance(case: Case) -> Diagnosis:
    """Only what plain counts tell: for `scan`, which must be cheap."""
    found = [rule.judge(case) for rule in (zombie_population, zombie_growth, visible_leak)]
    sweep = case.first.snapshot.sweep
    if not isinstance(sweep, Gap) and case.thresholds.of_sweep(sweep.seconds) is not Severity.OK:
        from zombiescope.diagnosis.rules import costly_sweep  # noqa: PLC0415 (few hosts have one)

        found.append(costly_sweep.judge(case))
    return _with_the_rest(_by_counts(case, tuple(found)))


def _with_the_rest(plain: Diagnosis) -> Diagnosis:
    """The counts are in the sentence; what grows or takes long belongs in the same line."""
    more = [each.summary for each in plain.present if each.id not in _COUNTED]
    if not more:
        return plain
    if plain.disease is not Disease.NONE:
        return plain._replace(verdict="; ".join([plain.verdict, *more]))
    return plain._replace(
        verdict="; ".join([plain.finding(zombie_population.FINDING.id).summary, *more]), origin=UNTOLD
    )


def diagnose(case: Case) -> Diagnosis:
    """Every rule, linked to its root."""
    from zombiescope.diagnosis.catalogue import RULES, useless_of  # noqa: PLC0415 (a scan does not pay for all of them)
    from zombiescope.diagnosis.chain import chains, link, maker_of, say  # noqa: PLC0415

    findings = link(case, tuple(rule.judge(case) for rule in RULES))
    plain = _by_counts(case, findings)
    found = chains(findings)
    if not found:
        first = NONE if plain.origin == NONE else Remedy.LOOK_FROM_THE_HOST
        return plain._replace(verdict=_as_far_as_seen(plain), first_remedy=first)
    present = {finding.id: finding for finding in findings if finding.verdict is Verdict.PRESENT}
    root = found[0][-1]
    others = tuple(dict.fromkeys(chain[-1] for chain in found[1:] if chain[-1] not in found[0]))
    return plain._replace(
        verdict=("both diseases: " if plain.disease is Disease.BOTH else "") + say(case, found[0], present, others),
        origin=root,
        maker=maker_of(case, root),
        chains=found,
        first_remedy=next(iter(present[root].remedies), ""),
        useless=useless_of(present),
    )


def _as_far_as_seen(plain: Diagnosis) -> str:
    unknown = sum(finding.verdict is Verdict.UNKNOWN for finding in plain.findings)
    if plain.disease is not Disease.NONE or unknown <= _MANY_UNKNOWN * len(plain.findings):
        return plain.verdict
    seen = plain.verdict.removeprefix(_HEALTHY)
    return f"nothing wrong was seen: {seen}; {unknown} of {len(plain.findings)} checks could not be made"


def _by_counts(case: Case, findings: tuple[Finding, ...]) -> Diagnosis:
    by_id = {finding.id: finding for finding in findings}
    population, leak = by_id[zombie_population.FINDING.id], by_id[visible_leak.FINDING.id]
    disease = _disease(population.verdict, leak.verdict)
    origin = NONE if disease is Disease.NONE else UNTOLD
    verdict = _healthy(case) if disease is Disease.NONE else _sentence(disease, population, leak)
    return Diagnosis(disease, verdict, findings, origin)


def _healthy(case: Case) -> str:
    population = case.last.scan.population
    assert not isinstance(population, Gap)
    return (
        f"{_HEALTHY}{zombies_said(population.zombies)}, warning from {case.thresholds.warning_from(population.live):,}"
    )


def _disease(population: Verdict, leak: Verdict) -> Disease:
    match population, leak:
        case Verdict.PRESENT, Verdict.PRESENT:
            return Disease.BOTH
        case Verdict.PRESENT, _:
            return Disease.ZOMBIES
        case _, Verdict.PRESENT:
            return Disease.DIRECTORIES
        case Verdict.ABSENT, Verdict.ABSENT:
            return Disease.NONE
        case _:
            return Disease.UNKNOWN


def _sentence(disease: Disease, population: Finding, leak: Finding) -> str:
    match disease:
        case Disease.BOTH:
            return f"both diseases: zombies ({population.summary}) and directories never removed ({leak.summary})"
        case Disease.ZOMBIES:
            return f"zombies: {population.summary}"
        case Disease.DIRECTORIES:
            return f"directories never removed: {leak.summary}; {population.summary}"
        case _:
            return f"cannot tell: {(population if population.verdict is Verdict.UNKNOWN else leak).summary}"


CONDITION = "ZombieMemcgPressure"
_PRESSURE = {
    "zombie-population": "ZombieMemcgAboveLimit",
    "costly-sweep": "CostlyMemcgSweep",
    "costly-reclaim-walk": "CostlyMemcgReclaim",
}
_NO_PRESSURE, _NOT_COUNTED = "NoZombieMemcgPressure", "ZombieMemcgNotCounted"
REASONS = (*_PRESSURE.values(), _NO_PRESSURE, _NOT_COUNTED)
_MOST_MESSAGE = 512


class ConditionStatus(StrEnum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(NamedTuple):
    status: ConditionStatus
    reason: str
    message: str


def judge_condition(diagnosis: Diagnosis, makers: Mapping[str, int] | None = None) -> Condition:
    """`makers`: zombies of each, where that is known."""
    found = [each for each in diagnosis.findings if each.id in _PRESSURE]
    pressing = [each for each in found if each.verdict is Verdict.PRESENT and at_least(each.severity, Severity.WARNING)]
    if pressing:
        worst = min(pressing, key=lambda each: (-SEVERITIES.index(each.severity), list(_PRESSURE).index(each.id)))
        return Condition(ConditionStatus.TRUE, _PRESSURE[worst.id], _message(worst, makers or {}))
    counted = next((each for each in found if each.id == zombie_population.FINDING.id), None)
    if counted is None or counted.verdict is Verdict.UNKNOWN:
        why = counted.summary[:_MOST_MESSAGE] if counted else "not looked at yet"
        return Condition(ConditionStatus.UNKNOWN, _NOT_COUNTED, why)
    return Condition(ConditionStatus.FALSE, _NO_PRESSURE, counted.summary[:_MOST_MESSAGE])


def _message(finding: Finding, makers: Mapping[str, int]) -> str:
    most = max(makers, key=lambda name: (makers[name], name), default="")
    made = f"; most of them made by {most} ({makers[most]:,})" if most and makers[most] else ""
    return f"{finding.summary}{made}"[:_MOST_MESSAGE]


class HeldCondition:
    """What was the same for long enough. Seconds are those of a clock that only goes forward."""

    def __init__(self) -> None:
        self._seen: Condition | None = None
        self._since = 0.0
        self.held: Condition | None = None

    def take(self, seen: Condition, clock: float, hold_seconds: float) -> Condition | None:
        """None until anything has held once. A new reason or message of the same status needs no waiting."""
        if self._seen is None or self._seen.status is not seen.status:
            self._since = clock
        self._seen = seen
        if clock - self._since >= hold_seconds or (self.held and self.held.status is seen.status):
            self.held = seen
        return self.held
