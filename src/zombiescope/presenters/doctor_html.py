# SPDX-License-Identifier: Apache-2.0
"""The doctor's answer as one page: no script, no outside address, light and dark, fit for paper. Every word of the machine is
escaped: a cgroup's name is a stranger's."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from zombiescope.diagnosis.finding import Evidence, Finding, Verdict
from zombiescope.facts.gap import Gap
from zombiescope.presenters.doctor_axis_svg import render_axis
from zombiescope.presenters.doctor_chain_svg import render_chains
from zombiescope.presenters.doctor_json import case_gaps, last_gaps
from zombiescope.presenters.doctor_report import Report, frees, told_correlation, told_first, value_of
from zombiescope.presenters.document import one_per_field, rfc3339
from zombiescope.presenters.page_style import STYLE
from zombiescope.remedies.plan import AskHuman, Plan, Step

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"


def render_doctor_html(report: Report) -> str:
    diagnosis, snapshot = report.diagnosis, report.case.last.snapshot
    host = snapshot.identity
    about = [
        host.name or "a host",
        f"kernel {host.kernel or '?'}",
        rfc3339(snapshot.taken_at)[:19].replace("T", " ") + " UTC",
    ]
    body = [
        f'<header class="{diagnosis.worst}"><p class="about">{escape(" · ".join(about))}</p>',
        f"<h1>{_with_names(diagnosis.verdict)}</h1>{_first(report)}</header>",
        _section("From what hurts to where it comes from", render_chains(diagnosis)),
        _section("What to do", _plan(report.plan)),
        _section("When", _when(report)),
        _section("Findings", "".join(_finding(finding) for finding in diagnosis.present)),
        _section("In vain", _pairs((advice.what, advice.why) for advice in diagnosis.in_vain)),
        _section("Not found, and not known", _rest(report)),
    ]
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><meta name="color-scheme" content="light dark">'
        f"<title>{escape(about[0])}: {escape(diagnosis.verdict[:80])}</title><style>{STYLE}</style>"
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body><main>{"".join(body)}</main></body></html>\n'


def _with_names(text: str) -> str:
    """Names that the sentence puts between backquotes, in the type of names."""
    parts = escape(text).split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return "".join(f"<code>{part}</code>" if number % 2 else part for number, part in enumerate(parts))


def _section(title: str, inside: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{inside}</section>" if inside else ""


def _first(report: Report) -> str:
    first = told_first(report.diagnosis, report.plan)
    return f"<p>First: <b>{escape(first)}</b></p>" if first else ""


def _finding(finding: Finding) -> str:
    causes = "".join(f"<code>{escape(cause)}</code> " for cause in finding.explained_by)
    because = f'<p class="because">comes from {causes}</p>' if causes else ""
    rows = "".join(_evidence(item) for item in finding.evidence)
    table = f"<table><tbody>{rows}</tbody></table>" if rows else ""
    return (
        f'<article class="{finding.severity}" id="{escape(finding.id)}"><h3>{escape(finding.title)} '
        f'<small><code>{escape(finding.id)}</code> <span class="badge">{escape(finding.severity)}</span></small></h3>'
        f"<p>{escape(finding.summary)}</p>{because}{table}</article>"
    )


def _evidence(item: Evidence) -> str:
    cells = (item.fact, value_of(item), item.unit, item.source, f"{rfc3339(item.at)[:19].replace('T', ' ')}")
    kinds = ("", ' class="number"', "", ' class="faint"', ' class="faint"')
    return "<tr>" + "".join(f"<td{kind}>{escape(cell)}</td>" for kind, cell in zip(kinds, cells, strict=True)) + "</tr>"


def _plan(plan: Plan | Gap) -> str:
    if isinstance(plan, Gap):
        return f'<p class="faint">{escape(plan.reason)} ({escape(plan.hint)})</p>'
    if not plan.steps:
        return "<p>Nothing.</p>"
    return f"<ol>{''.join(map(_step, plan.steps))}</ol>"


def _step(step: Step) -> str:
    facts = [f"risk {step.risk}", f"undo: {step.undo}", *([f"frees {frees(step)}"] if frees(step) else [])]
    if step.needs_consent:
        facts.append(f"needs --consent {step.name}")
    typed = ""
    if isinstance(step.change, AskHuman):
        facts = ["for people"]
        typed = f"<pre>{escape(chr(10).join(step.change.commands))}</pre>" if step.change.commands else ""
    return (
        f'<li><b>{escape(step.title)}</b> <span class="faint">{escape("; ".join(facts))}</span>'
        f"<p>{escape(step.why)}</p>{typed}</li>"
    )


def _when(report: Report) -> str:
    axis = render_axis(report.timeline) if report.timeline else ""
    told = "".join(f"<li>{escape(told_correlation(each))}</li>" for each in report.correlations)
    return axis + (f"<h3>Do failures follow?</h3><ul>{told}</ul>" if told else "")


def _pairs(pairs: Iterable[tuple[str, str]]) -> str:
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(text)}</dd>" for name, text in pairs)
    return f"<dl>{rows}</dl>" if rows else ""


def _rest(report: Report) -> str:
    others = [finding for finding in report.diagnosis.findings if finding.verdict is not Verdict.PRESENT]
    rows = "".join(
        f"<tr><td><code>{escape(finding.id)}</code></td><td>{escape(finding.verdict)}</td><td>{escape(finding.summary)}</td></tr>"
        for finding in others
    )
    told = {finding.summary for finding in others}
    gaps = one_per_field([*last_gaps(report.case), *case_gaps(report.case), *report.gaps])
    lines = _pairs(
        (gap.fact, f"{gap.reason} {f'({gap.hint})' if gap.hint else ''}") for gap in gaps if gap.reason not in told
    )
    return f"<table><tbody>{rows}</tbody></table>{lines}"
