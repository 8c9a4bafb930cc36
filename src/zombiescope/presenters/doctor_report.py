# SPDX-License-Identifier: Apache-2.0
"""Everything the doctor's written forms show: one record, and the words that page and ticket share."""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.analysis.correlation import LEAST_CASES, Correlation
from zombiescope.analysis.maker import maker_said
from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.engine import NONE, Diagnosis
from zombiescope.diagnosis.finding import Evidence
from zombiescope.facts.gap import Gap
from zombiescope.facts.history import Timeline
from zombiescope.facts.names import zombies_said
from zombiescope.facts.remedies import Remedy
from zombiescope.presenters.document import rfc3339
from zombiescope.presenters.figures import UNKNOWN, duration, size
from zombiescope.remedies.plan import Plan, Step

_COUNTED = ("zombies", "cgroups", "restarts", "resets", "lines", "reports", "pages")
_NO_PLAN = Gap("plan", "no plan was made", "zombiescope plan")


def told_remedy(remedy: Remedy) -> str:
    """What it means where nobody knows yet whom it is about."""
    return remedy.words.format(whom="it")


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


def told_first(diagnosis: Diagnosis, plan: Plan | Gap) -> str:
    """What to do first, in words; empty where nothing is to be done. The plan's own step against the origin where there is one."""
    remedy = diagnosis.first_remedy
    if remedy in ("", NONE):
        return ""
    steps = () if isinstance(plan, Gap) else plan.own_steps
    step = next((each for each in steps if each.finding == diagnosis.origin), None)
    if step is not None:
        return f"{step.title}{f' (frees {frees(step)})' if frees(step) else ''}: zombiescope apply"
    whom = maker_said(diagnosis.maker)
    told = Remedy(remedy).words
    if "{whom}" in told:
        return told.format(whom=whom or "each of these units")
    return f"{told} ({whom})" if whom else told


def value_of(item: Evidence) -> str:
    if item.unit == "bytes" and isinstance(item.value, int):
        return size(item.value)
    return f"{item.value:,}" if isinstance(item.value, int | float) else str(item.value)


def amount(item: Evidence) -> str:
    """The number with its unit, as a person says it: 30 us, 64 % of one core, 1.41 GiB."""
    value, unit = item.value, item.unit
    if not isinstance(value, int | float):
        return " ".join(filter(None, (UNKNOWN if value is None else str(value), "" if unit == "path" else unit)))
    if unit == "bytes":
        return size(round(value))
    if unit == "seconds since the epoch":
        return f"{rfc3339(value)[:19].replace('T', ' ')} UTC"
    if unit.startswith("seconds"):
        return duration(value) + unit.removeprefix("seconds")
    if unit.startswith("nanoseconds"):
        return duration(value / 1e9) + unit.removeprefix("nanoseconds")
    if unit.startswith("of ") and not isinstance(item.value, int):
        return f"{value:.0%} {unit}" if value >= 0.01 or not value else f"{value:.2%} {unit}"
    return f"{value:,.10g} {_singular(unit) if value == 1 else unit}".rstrip()


def _singular(unit: str) -> str:
    """`1 zombie`, `1 zombie in 80 s`."""
    first, _, rest = unit.partition(" ")
    return f"{first.removesuffix('s')} {rest}".rstrip() if first in _COUNTED else unit


def frees(step: Step) -> str:
    """What a step is expected to free, in few words; empty for a step that frees nothing itself."""
    if step.expected is None:
        return ""
    count, least = step.expected.zombies_freed, ""
    if count is None:
        count, least = step.expected.up_to, "at most "
    return f"{least}{zombies_said(count)}"
