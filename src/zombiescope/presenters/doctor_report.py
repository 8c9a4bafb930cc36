# SPDX-License-Identifier: Apache-2.0
"""Everything the doctor's written forms show: one record, and the words that page and ticket share."""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.analysis.correlation import LEAST_CASES, Correlation
from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.engine import Diagnosis
from zombiescope.diagnosis.finding import Evidence
from zombiescope.facts.gap import Gap
from zombiescope.facts.timeline import Timeline
from zombiescope.presenters.figures import size
from zombiescope.remedies.plan import Plan, Step

_NO_PLAN = Gap("plan", "no plan was made", "zombiescope plan")


class Report(NamedTuple):
    case: Case
    diagnosis: Diagnosis
    timeline: Timeline | None = None
    correlations: tuple[Correlation, ...] = ()
    plan: Plan | Gap = _NO_PLAN
    gaps: tuple[Gap, ...] = ()


def told_correlation(found: Correlation) -> str:
    """One sentence, with its doubt."""
    text = (
        f"{found.preceded} of {found.cases} {found.effect}{'s' if found.cases != 1 else ''} came within "
        f"{found.lag_seconds:.0f} s after {'an' if found.cause[0] in 'aeio' else 'a'} {found.cause}"
    )
    if found.p_value is None:
        return f"{text}: fewer than {LEAST_CASES} cases, which prove nothing"
    by_chance = f"{found.chance or 0:.1%} of control moments do"
    lift = f"{found.lift:.1f} times as often as by chance" if found.lift is not None else "never by chance"
    verdict = "they belong together" if found.is_telling else "this may be chance"
    return f"{text}, {lift} ({by_chance}; p = {found.p_value:.3f}): {verdict}"


def value_of(item: Evidence) -> str:
    if item.unit == "bytes" and isinstance(item.value, int):
        return size(item.value)
    return f"{item.value:,}" if isinstance(item.value, int | float) else str(item.value)


def frees(step: Step) -> str:
    """What a step is expected to free, in few words; empty for a step that frees nothing itself."""
    if step.expected is None:
        return ""
    if step.expected.zombies_freed is None:
        return f"at most {step.expected.up_to:,} zombies"
    return f"{step.expected.zombies_freed:,} zombies"
