# SPDX-License-Identifier: Apache-2.0
"""The doctor's answer for a person: the verdict, the chain, each finding with its evidence, and what could not be known."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.engine import Diagnosis
from zombiescope.diagnosis.finding import Evidence, Finding, Verdict
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.presenters.doctor_json import last_gaps
from zombiescope.presenters.doctor_report import Report, frees, told_correlation, told_first, value_of
from zombiescope.presenters.document import one_per_field, rfc3339
from zombiescope.presenters.figures import Column, Fitting
from zombiescope.presenters.scan_text import STYLES, gap_lines, handed_on_lines
from zombiescope.remedies.plan import Step

_LABEL_WIDTH = 10
_MOST_STEPS = 8


def render_doctor_text(case: Case, diagnosis: Diagnosis, first: str = "") -> list[RenderableType]:
    parts: list[RenderableType] = [Text(diagnosis.verdict, style=STYLES[diagnosis.worst])]
    parts += _summary(diagnosis, first)
    for finding in diagnosis.present:
        parts += [Text(), _headline(finding), *([_evidence_table(finding.evidence)] if finding.evidence else [])]
    parts += _others(diagnosis)
    parts += handed_on_lines(case.last.snapshot.handed_on)
    if diagnosis.in_vain:
        parts += [Text(), _labelled("in vain", (Text(f"{each.what}: {each.why}") for each in diagnosis.in_vain))]
    parts += gap_lines(gap for gap in one_per_field(last_gaps(case)) if not gap.fact.startswith("growth"))
    return parts


def render_report_text(report: Report, page: str | None = None) -> list[RenderableType]:
    """With the plan in short, whether failures follow, and where the page is."""
    first = told_first(report.diagnosis, report.plan)
    parts = render_doctor_text(report.case, report.diagnosis, first)
    if report.correlations:
        lines = (Text(told_correlation(each)) for each in report.correlations)
        parts += [Text(), _labelled("follows", lines)]
    if not isinstance(report.plan, Gap) and report.plan.steps:
        steps = [Text(f"{step.n}. {step.title}{_frees(step)}") for step in report.plan.steps]
        parts += [Text(), _labelled("plan", [*steps[:_MOST_STEPS], Text("zombiescope plan tells each step in full")])]
    if page is not None:
        parts += [Text(), _labelled("page", (Text(shown(page.encode("utf-8", "surrogateescape"))),))]
    return parts


def _frees(step: Step) -> str:
    return f" (frees {frees(step)})" if frees(step) else ""


def _summary(diagnosis: Diagnosis, first: str) -> list[RenderableType]:
    if not diagnosis.chains:
        return []
    rows: list[RenderableType] = [Text()]
    for number, chain in enumerate(diagnosis.chains):
        line = Text(" <- ".join(chain), style="" if number else "bold")
        rows.append(_labelled("chain" if number == 0 else "", (line,)))
    if first:
        rows.append(_labelled("first", (Text(first),)))
    return rows


def _others(diagnosis: Diagnosis) -> list[RenderableType]:
    absent = [finding.id for finding in diagnosis.findings if finding.verdict is Verdict.ABSENT]
    unknown = [finding for finding in diagnosis.findings if finding.verdict is Verdict.UNKNOWN]
    parts: list[RenderableType] = []
    if absent:
        parts += [Text(), _labelled("absent", (Text(", ".join(absent)),))]
    by_reason: dict[str, list[str]] = {}
    for finding in unknown:
        by_reason.setdefault(finding.summary, []).append(finding.id)
    if by_reason:
        lines = (Text(f"{', '.join(names)}: {reason}") for reason, names in by_reason.items())
        parts += [Text(), _labelled("unknown", lines)]
    return parts


def _labelled(label: str, lines: Iterable[Text]) -> Table:
    """A word in the margin, and lines that fold beside it."""
    table = Table(box=None, pad_edge=False, padding=(0, 0, 0, 0), show_header=False)
    table.add_column(width=_LABEL_WIDTH, no_wrap=False, overflow="fold")
    table.add_column(overflow="fold")
    for number, line in enumerate(lines):
        table.add_row(Text("" if number else label, style="bold"), line)
    return table


def _headline(finding: Finding) -> Text:
    line = Text(f"{finding.verdict:<8}", style=STYLES[finding.severity])
    line.append(f"{finding.id}", style="bold")
    tail = f" ({finding.severity})" if finding.verdict is Verdict.PRESENT else ""
    return line.append(f"{tail}: {finding.summary}", style="")


def _evidence_table(evidence: tuple[Evidence, ...]) -> Fitting:
    columns = (
        Column("fact", is_number=False, least_width=14),
        Column("value", least_width=12),
        Column("unit", is_number=False, least_width=8),
        Column("source", is_number=False, least_width=12),
        Column("at", is_number=False),
    )
    rows = [(item.fact, value_of(item), item.unit, item.source, f"{rfc3339(item.at)[11:19]}Z") for item in evidence]
    return Fitting(columns, rows, indent=8, is_headed=False)
