# SPDX-License-Identifier: Apache-2.0
"""The doctor's answer for a person: the verdict, each finding with its evidence, and what could not be known."""

from __future__ import annotations

from rich.console import RenderableType
from rich.text import Text

from zombiescope.diagnosis.case import Case
from zombiescope.diagnosis.engine import Diagnosis
from zombiescope.diagnosis.finding import Evidence, Finding, Verdict
from zombiescope.presenters.document import one_per_field, rfc3339
from zombiescope.presenters.figures import size
from zombiescope.presenters.fitting import Column, Fitting
from zombiescope.presenters.scan_json import scan_gaps
from zombiescope.presenters.scan_text import STYLES, gap_lines


def render_doctor_text(case: Case, diagnosis: Diagnosis) -> list[RenderableType]:
    parts: list[RenderableType] = [Text(diagnosis.verdict, style=STYLES[diagnosis.worst])]
    for finding in diagnosis.findings:
        parts += [Text(), _headline(finding), *([_evidence_table(finding.evidence)] if finding.evidence else [])]
    parts += gap_lines(gap for gap in one_per_field(scan_gaps(case.last)) if not gap.fact.startswith("growth"))
    return parts


def _headline(finding: Finding) -> Text:
    line = Text(f"{finding.verdict:<8}", style=STYLES[finding.severity])
    line.append(f"{finding.id}", style="bold")
    tail = f" ({finding.severity})" if finding.verdict is Verdict.PRESENT else ""
    return line.append(f"{tail}: {finding.summary}", style="")


def _evidence_table(evidence: tuple[Evidence, ...]) -> Fitting:
    columns = (
        Column("fact", is_number=False),
        Column("value", least_width=12),
        Column("unit", is_number=False, least_width=8),
        Column("source", is_number=False, least_width=12),
        Column("at", is_number=False),
    )
    rows = [(item.fact, _value(item), item.unit, item.source, f"{rfc3339(item.at)[11:19]}Z") for item in evidence]
    return Fitting(columns, rows, indent=8, is_headed=False)


def _value(item: Evidence) -> str:
    if item.unit == "bytes" and isinstance(item.value, int):
        return size(item.value)
    return f"{item.value:,}" if isinstance(item.value, int | float) else str(item.value)
