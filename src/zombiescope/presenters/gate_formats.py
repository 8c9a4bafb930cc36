# SPDX-License-Identifier: Apache-2.0
"""A verdict in the words of others: text, Nagios, node-problem-detector, Prometheus. The failing reason is always there."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.diagnosis.gate import Gate, GateVerdict, Reason
from zombiescope.diagnosis.limits import Limits
from zombiescope.facts.names import shown

NPD_CHARACTERS = 80
_PERFORMANCE = ("zombies", "ratio", "growth", "sweep", "directories")


def render_text(gate: Gate, source: str) -> str:
    lines = [f"{gate.verdict}: {source}: {_sentence(gate)}"]
    for reason in gate.reasons:
        is_compared = reason.threshold is not None and reason.rule in _PERFORMANCE and not _is_excused(reason)
        limit = f" (limit {_figure(reason.threshold)})" if is_compared else ""
        where = f" [{reason.source}]" if reason.source else ""
        lines.append(f"  {reason.verdict:<8} {clean(reason.what)}: {clean(reason.summary)}{limit}{where}")
    return "\n".join(lines)


def render_nagios(gate: Gate, limits: Limits) -> str:
    performance = " ".join(_performance(gate, limits))
    summary = _sentence(gate).replace("|", "/")
    lines = [f"ZOMBIESCOPE {gate.verdict} - {summary}" + (f" | {performance}" if performance else "")]
    lines += [
        f"{reason.verdict}: {clean(reason.what)}: {clean(reason.summary).replace('|', '/')}"
        for reason in gate.failing[1:]
    ]
    return "\n".join(lines)


def _performance(gate: Gate, limits: Limits) -> Iterator[str]:
    for reason in sorted(gate.reasons, key=lambda reason: reason.what):
        if reason.rule in _PERFORMANCE:
            value = "U" if reason.value is None else f"{reason.value:.15g}"
            warning, critical = (getattr(limits, f"{reason.rule}_{level}") for level in ("warning", "critical"))
            yield f"{reason.rule}={value};{warning:.15g};{critical:.15g};0"


def render_npd(gate: Gate) -> str:
    """One line of at most 80 characters: node-problem-detector cuts the rest."""
    reasons = gate.failing or gate.reasons
    more = f", {len(gate.failing) - 1} more" if len(gate.failing) > 1 else ""
    line = f"{gate.verdict}: {_brief(reasons[0]) if reasons else 'nothing was looked at'}{more}"
    return line if len(line) <= NPD_CHARACTERS else line[: NPD_CHARACTERS - 3] + "..."


def _brief(reason: Reason) -> str:
    if reason.value is None or reason.rule not in _PERFORMANCE:
        return clean(reason.what if reason.value is not None else f"{reason.what}: {reason.summary}")
    return f"{reason.rule} {_figure(reason.value)} (limit {_figure(reason.threshold)})"


def render_prometheus(gate: Gate, limits: Limits, at: float) -> str:
    lines = [
        "# HELP zombiescope_check_verdict The verdict: 0 OK, 1 WARNING, 2 CRITICAL, 3 UNKNOWN.",
        "# TYPE zombiescope_check_verdict gauge",
        f"zombiescope_check_verdict {gate.verdict.exit_code}",
        "# HELP zombiescope_check_reasons Reasons by rule and verdict.",
        "# TYPE zombiescope_check_reasons gauge",
    ]
    tally: dict[tuple[str, str], int] = {}
    for reason in gate.reasons:
        tally[reason.rule, reason.verdict] = tally.get((reason.rule, reason.verdict), 0) + 1
    lines += [
        f'zombiescope_check_reasons{{rule="{rule}",verdict="{verdict}"}} {count}'
        for (rule, verdict), count in sorted(tally.items())
    ]
    values = [reason for reason in gate.reasons if reason.rule in _PERFORMANCE and reason.value is not None]
    if values:
        lines += ["# HELP zombiescope_check_value What was measured.", "# TYPE zombiescope_check_value gauge"]
        lines += [f'zombiescope_check_value{{rule="{reason.rule}"}} {reason.value:.15g}' for reason in values]
    lines += [
        "# HELP zombiescope_check_threshold The limits compared with.",
        "# TYPE zombiescope_check_threshold gauge",
    ]
    for rule in _PERFORMANCE:
        for level in ("warning", "critical"):
            lines.append(
                f'zombiescope_check_threshold{{rule="{rule}",severity="{level}"}} {getattr(limits, f"{rule}_{level}"):.15g}'
            )
    lines += [
        "# HELP zombiescope_check_timestamp_seconds When the check was made.",
        "# TYPE zombiescope_check_timestamp_seconds gauge",
        f"zombiescope_check_timestamp_seconds {at:.3f}",
    ]
    lines += [f"# failing: {reason.verdict}: {clean(reason.what)}: {clean(reason.summary)}" for reason in gate.failing]
    return "\n".join(lines)


def _sentence(gate: Gate) -> str:
    """The worst reason first; for OK, the first one measured."""
    reasons = gate.failing or gate.reasons
    if not reasons:
        return "nothing was looked at"
    more = f", and {len(gate.failing) - 1} more" if len(gate.failing) > 1 else ""
    return _short(reasons[0]) + more


def _is_excused(reason: Reason) -> bool:
    """Above its limit and still OK: its summary says why, and the bare limit beside it would only contradict it."""
    if reason.verdict is not GateVerdict.OK or reason.value is None or reason.threshold is None:
        return False
    return reason.value >= reason.threshold


def _short(reason: Reason) -> str:
    limit = ""
    if reason.verdict in (GateVerdict.WARNING, GateVerdict.CRITICAL) and reason.rule in _PERFORMANCE:
        limit = f" (limit {_figure(reason.threshold)})"
    return clean(reason.summary) + limit


def clean(text: str) -> str:
    """One printable line, whatever a name held."""
    return text if text.isprintable() else shown(text.encode("utf-8", "surrogateescape"))


def _figure(value: float | None) -> str:
    return "?" if value is None else f"{value:,.10g}"
