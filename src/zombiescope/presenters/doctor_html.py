# SPDX-License-Identifier: Apache-2.0
"""The doctor's answer as one page: no script, no outside address, light and dark, fit for paper. Every word of the machine is
escaped: a cgroup's name is a stranger's."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from html import escape

from zombiescope.diagnosis.engine import Diagnosis
from zombiescope.diagnosis.finding import Evidence, Finding, Verdict
from zombiescope.facts.gap import Gap
from zombiescope.facts.history import Timeline
from zombiescope.presenters.doctor_json import case_gaps, last_gaps
from zombiescope.presenters.doctor_report import Report, frees, told_correlation, told_first, value_of
from zombiescope.presenters.document import one_per_field, rfc3339
from zombiescope.remedies.plan import AskHuman, Plan, Step

_WIDTH, _LEFT, _RIGHT, _LANE, _CURVE = 980, 130, 16, 30, 90
_TICKS = 6
_MOST_MARKS = 2_000


def render_axis(timeline: Timeline) -> str:
    """Empty where nothing happened and nothing is remembered."""
    kinds = timeline.kinds
    if not kinds and len(timeline.zombies) < 2:
        return ""
    lanes = len(kinds) * _LANE
    height = lanes + (_CURVE + 14 if len(timeline.zombies) > 1 else 0) + 34
    parts = [
        (
            f'<svg class="axis" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}" role="img" '
            'aria-label="events over time">'
        )
    ]
    for number, kind in enumerate(kinds):
        parts += _lane(timeline, kind, number * _LANE + 8)
    if len(timeline.zombies) > 1:
        parts += _curve(timeline, lanes + 12)
    return "".join([*parts, *_ticks(timeline, height - 26), "</svg>"])


def _x(timeline: Timeline, at: float) -> float:
    span = max(timeline.end - timeline.begin, 1e-9)
    return _LEFT + min(max((at - timeline.begin) / span, 0.0), 1.0) * (_WIDTH - _LEFT - _RIGHT)


def _lane(timeline: Timeline, kind: str, top: int) -> list[str]:
    middle = top + 10
    parts = [f'<text x="{_LEFT - 10}" y="{middle + 4}" text-anchor="end" class="name">{escape(kind)}</text>']
    for begin, end in timeline.watched.get(kind, ((timeline.begin, timeline.end),)):
        left, right = _x(timeline, begin), _x(timeline, end)
        parts.append(f'<path class="lane" d="M{left:.1f} {middle}H{max(right, left + 1):.1f}"/>')
    for mark in [mark for mark in timeline.marks if mark.what == kind][-_MOST_MARKS:]:
        x = _x(timeline, mark.at)
        parts.append(
            f'<path class="mark" d="M{x:.1f} {middle - 8}V{middle + 8}"><title>{escape(_moment(mark.at))} '
            f"{escape(mark.detail)}</title></path>"
        )
    return parts


def _curve(timeline: Timeline, top: int) -> list[str]:
    most = max(value for _, value in timeline.zombies) or 1.0
    points = " ".join(
        f"{_x(timeline, at):.1f},{top + _CURVE - value / most * (_CURVE - 8):.1f}" for at, value in timeline.zombies
    )
    return [
        f'<text x="{_LEFT - 10}" y="{top + 14}" text-anchor="end" class="name">{most:,.0f}</text>',
        f'<text x="{_LEFT - 10}" y="{top + _CURVE}" text-anchor="end" class="name">zombies 0</text>',
        f'<polyline class="curve" points="{points}"/>',
    ]


def _ticks(timeline: Timeline, top: int) -> list[str]:
    parts = [f'<path class="lane" d="M{_LEFT} {top}H{_WIDTH - _RIGHT}"/>']
    for number in range(_TICKS + 1):
        at = timeline.begin + (timeline.end - timeline.begin) * number / _TICKS
        x = _x(timeline, at)
        anchor = "end" if number == _TICKS else "start" if number == 0 else "middle"
        words = _moment(at)[5:16] if timeline.end - timeline.begin > 7200 else _moment(at)[11:19]
        parts.append(f'<text x="{x:.1f}" y="{top + 18}" text-anchor="{anchor}" class="tick">{escape(words)}</text>')
    return parts


def _moment(at: float) -> str:
    seconds = min(max(at, 0.0), 253_402_300_799.0)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


_WIDE, _HIGH, _SPACE, _ROW = 190, 58, 30, 84
_MOST_IN_A_ROW = 4


def render_chains(diagnosis: Diagnosis) -> str:
    """Empty where nothing was found. A long chain goes on in the next row."""
    rows = [row for chain in diagnosis.chains for row in _folded(chain)]
    if not rows:
        return ""
    widest = max(len(row) for row, _ in rows)
    width, height = widest * (_WIDE + _SPACE) - _SPACE + 12, len(rows) * _ROW
    parts = [
        (
            f'<svg class="chain" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
            'aria-label="what hurts on the left, where it comes from on the right">'
        ),
        (
            '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
            '<path d="M0 0L8 4L0 8z" class="tip"/></marker></defs>'
        ),
    ]
    for number, (row, goes_on) in enumerate(rows):
        parts += _row(diagnosis, row, number * _ROW + 8, goes_on=goes_on)
    return "".join([*parts, "</svg>"])


def _folded(chain: tuple[str, ...]) -> list[tuple[tuple[str, ...], bool]]:
    pieces = [chain[start : start + _MOST_IN_A_ROW] for start in range(0, len(chain), _MOST_IN_A_ROW)]
    return [(piece, number < len(pieces) - 1) for number, piece in enumerate(pieces)]


def _row(diagnosis: Diagnosis, row: tuple[str, ...], top: int, *, goes_on: bool) -> list[str]:
    parts = []
    for place, name in enumerate(row):
        finding, left = diagnosis.finding(name), 4 + place * (_WIDE + _SPACE)
        origin = " origin" if name == diagnosis.origin else ""
        parts += [
            f'<g class="node {finding.severity}{origin}"><title>{escape(finding.summary)}</title>',
            f'<rect x="{left}" y="{top}" width="{_WIDE}" height="{_HIGH}" rx="8"/>',
            f'<text x="{left + 12}" y="{top + 24}" class="role">{escape(finding.role)}</text>',
            f'<text x="{left + 12}" y="{top + 44}" class="name">{escape(name)}</text></g>',
        ]
        if place < len(row) - 1 or goes_on:
            middle = top + _HIGH // 2
            end = left + _WIDE + (_SPACE - 4 if place < len(row) - 1 else 8)
            parts.append(f'<path class="link" d="M{left + _WIDE + 2} {middle}H{end}" marker-end="url(#tip)"/>')
    return parts


STYLE = """
:root{--ink:#1b1f24;--faint:#5b6570;--paper:#fff;--card:#f5f6f8;--line:#d5dae0;--ok:#1a7f37;--warning:#9a6700;--critical:#c0262d;--unknown:#5b6570}
@media (prefers-color-scheme:dark){:root{--ink:#e8ebef;--faint:#9aa5b1;--paper:#14171b;--card:#1e2329;--line:#39414a;--ok:#4ac26b;--warning:#d4a72c;--critical:#ff7b72;--unknown:#9aa5b1}}
*{box-sizing:border-box}body{margin:0;background:var(--paper);color:var(--ink);font:15px/1.5 system-ui,sans-serif}
main{max-width:1040px;margin:0 auto;padding:28px 20px 60px}
header{border-left:6px solid var(--unknown);padding:2px 0 2px 18px;margin-bottom:26px}
header.ok{border-color:var(--ok)}header.warning{border-color:var(--warning)}header.critical{border-color:var(--critical)}
h1 code{font-size:inherit}h1{font-size:22px;line-height:1.35;margin:4px 0;overflow-wrap:anywhere}h2{font-size:17px;margin:34px 0 10px;padding-bottom:4px;border-bottom:1px solid var(--line)}
h3{font-size:15px;margin:0 0 4px}.about,.faint,.because{color:var(--faint)}.about{margin:0}
code,pre{font:13px/1.45 ui-monospace,monospace}pre{background:var(--card);padding:8px 10px;overflow:auto;white-space:pre-wrap}
article{background:var(--card);border-left:4px solid var(--unknown);border-radius:4px;padding:12px 16px;margin:12px 0}
article.warning{border-color:var(--warning)}article.critical{border-color:var(--critical)}article p{margin:4px 0}
.badge{font-weight:600;color:var(--unknown)}.warning .badge{color:var(--warning)}.critical .badge{color:var(--critical)}
table{border-collapse:collapse;width:100%;margin:8px 0;font-size:13px}td{border-top:1px solid var(--line);padding:3px 12px 3px 0;vertical-align:top;overflow-wrap:anywhere}
td.number{text-align:right;font-variant-numeric:tabular-nums}li{margin:8px 0}li p{margin:2px 0}
dt{font-weight:600;margin-top:8px}dd{margin:0;color:var(--faint)}
svg{max-width:100%;height:auto;display:block;margin:10px 0}svg text{fill:var(--ink);font:13px system-ui,sans-serif}
.node rect{fill:var(--card);stroke:var(--unknown);stroke-width:1.5}.node.warning rect{stroke:var(--warning)}.node.critical rect{stroke:var(--critical)}
.node.origin rect{stroke-width:3.5}.node .role{fill:var(--faint);font-size:11px}.node .name{font-weight:600}
.link{stroke:var(--faint);stroke-width:1.5;fill:none}.tip{fill:var(--faint)}
.lane{stroke:var(--line);stroke-width:2}.mark{stroke:var(--critical);stroke-width:2}.curve{fill:none;stroke:var(--warning);stroke-width:1.5}.tick{font-size:11px}
@media print{:root{--ink:#000;--faint:#444;--paper:#fff;--card:#fff;--line:#bbb;--ok:#060;--warning:#850;--critical:#a00;--unknown:#444}
main{max-width:none;padding:0}article,li,svg,tr{break-inside:avoid}article{border:1px solid var(--line);border-left-width:4px}h2{break-after:avoid}}
"""  # noqa: E501 (one rule a line)


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
        _section("What does not help", _pairs((advice.what, advice.why) for advice in diagnosis.useless)),
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
        facts = ["you do this by hand"]
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
