# SPDX-License-Identifier: Apache-2.0
"""Everything the doctor's written forms show: one record, and the words that page and ticket share."""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.analysis.comparing import LEAST_CASES, Correlation
from zombiescope.analysis.maker import maker_said
from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.engine import NONE, Diagnosis
from zombiescope.diagnosis.finding import Evidence, Verdict
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


_SPECIAL = str.maketrans({character: f"\\{character}" for character in "\\*_[]<>#|~!&"})


def render_doctor_markdown(report: Report) -> str:
    diagnosis, snapshot = report.diagnosis, report.case.last.snapshot
    host = snapshot.identity
    lines = [f"# {plain(diagnosis.verdict)}", ""]
    where = f" of cluster {code(host.cluster)}" if host.cluster else ""
    lines.append(
        f"Host {code(host.name or '?')}{where}, kernel {code(host.kernel or '?')}, {rfc3339(snapshot.taken_at)}"
    )
    if first := told_first(diagnosis, report.plan):
        lines += ["", f"First: **{plain(first)}**"]
    if diagnosis.chains:
        lines += ["", *(f"- {' ← '.join(code(name) for name in chain)}" for chain in diagnosis.chains)]
    lines += ["", "## What to do", "", *_plan(report.plan)]
    if report.correlations:
        lines += [
            "",
            "## Do failures follow?",
            "",
            *(f"- {plain(told_correlation(each))}" for each in report.correlations),
        ]
    lines += ["", "## Findings"]
    for finding in diagnosis.present:
        lines += [
            "",
            f"### {plain(finding.title)} ({code(finding.id)}, {finding.severity})",
            "",
            plain(finding.summary),
            "",
        ]
        if finding.evidence:
            lines += ["| fact | value | unit | source | at |", "|---|---:|---|---|---|", *map(_row, finding.evidence)]
    if diagnosis.useless:
        lines += [
            "",
            "## What does not help",
            "",
            *(f"- {plain(each.what)}: {plain(each.why)}" for each in diagnosis.useless),
        ]
    others = [finding for finding in diagnosis.findings if finding.verdict is not Verdict.PRESENT]
    lines += ["", "## Not found, and not known", ""]
    lines += [f"- {code(each.id)} {each.verdict}: {plain(each.summary)}" for each in others]
    return "\n".join(lines) + "\n"


def plain(text: str) -> str:
    """Backquotes stay: the verdict itself puts names into them."""
    return text.translate(_SPECIAL)


def code(text: str) -> str:
    fence = "`" * (1 + max((len(run) for run in text.split() if set(run) == {"`"}), default=text.count("`")))
    return f"{fence} {text} {fence}" if "`" in text else f"`{text}`"


def _plan(plan: Plan | Gap) -> list[str]:
    if isinstance(plan, Gap):
        return [f"{plain(plan.reason)} ({plain(plan.hint)})"]
    if not plan.steps:
        return ["Nothing."]
    return [
        f"{step.n}. {plain(step.title)} (risk {step.risk}, undo {step.undo}{', frees ' + frees(step) if frees(step) else ''})"
        for step in plan.steps
    ]


def _row(item: Evidence) -> str:
    cells = (item.fact, value_of(item), item.unit, item.source, rfc3339(item.at)[:19])
    return "| " + " | ".join(plain(cell) for cell in cells) + " |"
