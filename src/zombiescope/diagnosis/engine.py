# SPDX-License-Identifier: Apache-2.0
"""Runs the rules over a case and says in one sentence which disease this is."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.catalogue import RULES
from zombiescope.diagnosis.finding import Finding, Verdict
from zombiescope.diagnosis.rules import visible_leak, zombie_population
from zombiescope.diagnosis.thresholds import Severity

_MUST_BE_KNOWN = (zombie_population.ID, visible_leak.ID)
_ORDER = (Severity.OK, Severity.UNKNOWN, Severity.WARNING, Severity.CRITICAL)


class Disease(StrEnum):
    ZOMBIES = "zombies"
    DIRECTORIES = "directories"
    BOTH = "both"
    NONE = "none"
    UNKNOWN = "unknown"


class Diagnosis(NamedTuple):
    disease: Disease
    verdict: str
    findings: tuple[Finding, ...]

    def finding(self, wanted: str) -> Finding:
        return next(finding for finding in self.findings if finding.id == wanted)

    @property
    def worst(self) -> Severity:
        """What nobody looked at makes nothing worse; only the two diseases must be known."""
        told = [each for each in self.findings if each.verdict is not Verdict.UNKNOWN or each.id in _MUST_BE_KNOWN]
        return max((finding.severity for finding in told), key=_ORDER.index)


def at_least(severity: Severity, limit: Severity) -> bool:
    return _ORDER.index(severity) >= _ORDER.index(limit)


def diagnose(case: Case) -> Diagnosis:
    findings = tuple(rule(case) for rule in RULES)
    by_id = {finding.id: finding for finding in findings}
    population, leak = by_id[zombie_population.ID], by_id[visible_leak.ID]
    disease = _disease(population.verdict, leak.verdict)
    return Diagnosis(disease, _sentence(disease, population, leak), findings)


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
        case Disease.NONE:
            return f"none: {population.summary}, and {leak.summary}: nothing out of the ordinary"
        case Disease.UNKNOWN:
            unknown = population if population.verdict is Verdict.UNKNOWN else leak
            return f"cannot tell: {unknown.summary}"
