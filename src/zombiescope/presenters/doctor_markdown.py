# SPDX-License-Identifier: Apache-2.0
"""The doctor's answer for a ticket, in Markdown. A stranger's words stay inside code, where they cannot become markup."""

from __future__ import annotations

from zombiescope.diagnosis.finding import Evidence, Verdict
from zombiescope.facts.gap import Gap
from zombiescope.presenters.doctor_report import Report, frees, told_correlation, told_first, value_of
from zombiescope.presenters.document import rfc3339
from zombiescope.remedies.plan import Plan

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
