# SPDX-License-Identifier: Apache-2.0
"""The verdict as JUnit XML: a test case a reason; UNKNOWN is an error, a waiver is a skip with its reason."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from zombiescope.diagnosis.gate import Gate, GateVerdict, Reason
from zombiescope.presenters.document import rfc3339
from zombiescope.presenters.gate_formats import clean, not_judged

_NAMED = 20


def render_junit(gate: Gate, source: str, at: float) -> str:
    failures = sum(reason.verdict in (GateVerdict.WARNING, GateVerdict.CRITICAL) for reason in gate.reasons)
    errors = sum(reason.verdict is GateVerdict.UNKNOWN for reason in gate.reasons)
    skipped = sum(reason.is_waived for reason in gate.reasons)
    counts = f'tests="{len(gate.reasons)}" failures="{failures}" errors="{errors}"'
    host = quoteattr(clean(source))
    verdict = f'<property name="verdict" value="{gate.verdict}"/>'
    count = "unknown" if gate.not_judged is None else len(gate.not_judged)
    unsure = f'<property name="not_judged" value="{count}"/>'
    told = not_judged(gate, _NAMED)
    stamp = rfc3339(at).partition(".")[0]
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<testsuites name="zombiescope check" {counts}>',
        f'  <testsuite name="zombiescope check" hostname={host} timestamp="{stamp}" {counts} skipped="{skipped}" time="0">',
        f"    <properties>{verdict}{unsure}</properties>",
        *(_case(reason) for reason in gate.reasons),
        *([f"    <system-out>{escape(told)}</system-out>"] if told else []),
        "  </testsuite>",
        "</testsuites>",
    ]
    return "\n".join(lines)


def _case(reason: Reason) -> str:
    head = f'    <testcase classname="zombiescope.{reason.rule}" name={quoteattr(clean(reason.what))} time="0"'
    summary = clean(reason.summary)
    if reason.is_waived:
        return f"{head}><skipped message={quoteattr(summary)}/></testcase>"
    if reason.verdict is GateVerdict.OK:
        return f"{head}/>"
    element = "error" if reason.verdict is GateVerdict.UNKNOWN else "failure"
    opening = f"<{element} type={quoteattr(reason.verdict)} message={quoteattr(summary)}>"
    return f"{head}>{opening}{escape(summary)}</{element}></testcase>"
