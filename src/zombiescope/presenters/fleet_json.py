# SPDX-License-Identifier: Apache-2.0
"""Fleet documents: `fleet-nodes/1`, `fleet-cohorts/1`, `fleet-doctor/1`; nodes also as CSV."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zombiescope.analysis.cohorts import Cohort, Comparison, Labels
from zombiescope.diagnosis.fleet_health import JudgedNode, say_verdict
from zombiescope.facts.fleet import SeriesSeen
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown_text
from zombiescope.presenters.document import Json, null_fields, rfc3339

_NULLS = {
    "nodes[].zombies": "no scan or agent of ours tells it of that node",
    "nodes[].live": "no scan or agent of ours tells it of that node",
    "nodes[].counted": "nobody counts the cgroups of that node",
    "nodes[].growth_per_hour": "no history of that node tells it",
    "nodes[].reached_at": "nothing grows there, or no history tells",
    "nodes[].saturated_seconds": "no agent follows the cores of that node",
    "nodes[].resets": "no agent follows the network cards of that node",
    "nodes[].restarts": "no unit loops there, or no agent follows its units",
    "cohorts[].since": "no moment of change can be told",
    "cohorts[].odds_ratio_left": "inside the cause and outside it nothing is left to compare",
}
_ONLY_A_FACT = ("cohorts[].explained_by",)


def render_nodes(judged: Sequence[JudgedNode]) -> Json:
    return {"nodes": [_node(each) for each in judged]}


def _node(each: JudgedNode) -> Json:
    node = each.node
    return {
        "node": shown_text(node.name),
        "severity": str(each.severity),
        "zombies": node.zombies,
        "live": node.live,
        "counted": node.counted,
        "growth_per_hour": _rounded(node.growth_per_hour),
        "reached_at": None if node.reached_at is None else rfc3339(node.reached_at),
        "findings": sorted(shown_text(name) for name in node.findings),
        "saturated_seconds": _rounded(node.saturated_seconds),
        "resets": _rounded(node.resets),
        "restarts": _rounded(node.restarts),
        "labels": {shown_text(name): shown_text(value) for name, value in sorted(node.labels.items())},
        "gaps": [{"fact": gap.fact, "reason": gap.reason, "hint": gap.hint} for gap in (*node.gaps, *each.gaps)],
    }


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def null_gaps(body: Json) -> list[Gap]:
    fields = [field for field in null_fields(body) if field not in _ONLY_A_FACT]
    return [Gap(field, _NULLS[field]) for field in fields if field in _NULLS]


def render_csv(judged: Sequence[JudgedNode]) -> str:
    """One line per node, every label a column."""
    names = sorted({name for each in judged for name in each.node.labels})
    fixed = (
        "node", "severity", "zombies", "live", "counted", "growth_per_hour", "reached_at", "saturated_seconds", "resets",
        "restarts",
    )  # fmt: skip
    lines = [[*fixed, "findings", *(shown_text(name) for name in names)]]
    for each in judged:
        row = _node(each)
        figures = ["" if row[name] is None else str(row[name]) for name in fixed]
        labels = (shown_text(each.node.labels.get(name, "")) for name in names)
        lines.append([*figures, " ".join(row["findings"]), *labels])
    return "\n".join(",".join(map(_cell, line)) for line in lines)


def _cell(text: str) -> str:
    text = _harmless(text)
    return '"' + text.replace('"', '""') + '"' if any(mark in text for mark in ',"\n\r') else text


def _harmless(text: str) -> str:
    """A spreadsheet obeys what begins so: a label is a stranger's."""
    is_number = text[:1] in "+-" and text[1:].replace(".", "", 1).isdigit()
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") and not is_number else text


def verdict_of(compared: Comparison, since: Mapping[Labels, float]) -> str:
    at = since.get(compared.causes[0].cohort.labels) if compared.causes else None
    return say_verdict(compared, None if at is None else f" since {rfc3339(at)[:16].replace('T', ' ')} UTC")


def render_cohorts(compared: Comparison, sick: str, since: Mapping[Labels, float], verdict: str, limit: int) -> Json:
    rows = [_cohort(cause.cohort, since, left=cause.left.odds_ratio) for cause in compared.causes]
    explained = sorted(compared.explained, key=lambda each: len(each.cohort.labels))
    rows += [_cohort(each.cohort, since, each.by, each.left.odds_ratio) for each in explained]
    rows += [_cohort(cohort, since) for cohort in compared.others]
    return {
        "verdict": verdict,
        "sick": sick,
        "nodes": compared.nodes,
        "nodes_sick": compared.sick,
        "tested": compared.tested,
        "causes": len(compared.causes),
        "cohorts": rows[:limit] if limit else rows,
        "too_small": [
            {"labels": _labels(labels), "nodes": nodes, "sick": sick}
            for labels, nodes, sick in compared.too_small[: limit or None]
        ],
        "left_out": {shown_text(name): why for name, why in compared.left_out.items()},
    }


def _cohort(cohort: Cohort, since: Mapping[Labels, float], by: Labels | None = None, left: float | None = None) -> Json:
    at = since.get(cohort.labels)
    body: dict[str, Any] = {
        "labels": _labels(cohort.labels),
        "nodes": cohort.nodes,
        "sick": cohort.sick,
        "odds_ratio": round(cohort.odds.value, 4),
        "odds_ratio_range": [round(cohort.odds.low, 4), round(cohort.odds.high, 4)],
        "p_value": cohort.p_value,
        "q_value": cohort.q_value,
        "since": None if at is None else rfc3339(at),
        "explained_by": None if by is None else _labels(by),
        "same_as": [_labels(labels) for labels in cohort.same_as],
    }
    if left is not None and left != float("inf"):
        body["odds_ratio_left"] = round(left, 4)
    return body


def _labels(labels: Labels) -> dict[str, str]:
    return {shown_text(name): shown_text(value) for name, value in labels}


def render_series(series: Sequence[SeriesSeen], verdict: str) -> Json:
    return {
        "verdict": verdict,
        "series": [
            {
                "name": each.name,
                "why": each.why,
                "nodes": each.nodes,
                "oldest_seconds": _rounded(each.oldest_seconds),
                "is_needed": each.is_needed,
                "is_rule": each.is_rule,
                "enabled_by": each.enabled_by,
            }
            for each in series
        ],
    }
