# SPDX-License-Identifier: Apache-2.0
"""Runs the rules over a case and says in one sentence which disease this is."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.finding import Finding, Verdict
from zombiescope.diagnosis.rules import visible_leak, zombie_growth, zombie_population
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import zombies_said
from zombiescope.facts.remedies import Remedy

if TYPE_CHECKING:
    from zombiescope.diagnosis.catalogue import Useless

_AT_A_GLANCE = (
    zombie_population.judge,
    zombie_growth.judge,
    visible_leak.judge,
)
_COUNTED = (zombie_population.FINDING.id, visible_leak.FINDING.id)
_SWEEP = "costly-sweep"
_GLANCED = (*_COUNTED, zombie_growth.FINDING.id, _SWEEP)
"""What counts, history and one sweep tell. Their worst is the severity of `scan`, and that of the counts of `check`."""
_ORDER = (Severity.OK, Severity.UNKNOWN, Severity.WARNING, Severity.CRITICAL)


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
    useless: tuple[Useless, ...] = ()

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
    return max((finding.severity for finding in told), key=_ORDER.index)


def at_least(severity: Severity, limit: Severity) -> bool:
    return _ORDER.index(severity) >= _ORDER.index(limit)


def glance(case: Case) -> Diagnosis:
    """Only what plain counts tell: for `scan`, which must be cheap."""
    found = [rule(case) for rule in _AT_A_GLANCE]
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
            unknown = population if population.verdict is Verdict.UNKNOWN else leak
            return f"cannot tell: {unknown.summary}"
