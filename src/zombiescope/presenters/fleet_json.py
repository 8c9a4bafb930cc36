# SPDX-License-Identifier: Apache-2.0
"""Fleet documents: `fleet-nodes/1`, `fleet-cohorts/1`, `fleet-doctor/1`, nodes also as CSV; and for the page every node as columns
(`page-fleet/1`), and what sets the sick ones apart (`page-cohorts/1`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from zombiescope.analysis.cohorts import Cohort, Comparison, Labels
from zombiescope.analysis.exact_test import LEAST_NODES, MOST_Q
from zombiescope.diagnosis.fleet_health import JudgedNode, named, say_verdict
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.errors import UsageError
from zombiescope.facts.fleet import Fleet, SeriesSeen
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import raw, shown_text
from zombiescope.presenters.document import (
    Json,
    csv_cell,
    null_fields,
    render_column,
    render_gaps,
    render_numbers,
    rfc3339,
)
from zombiescope.presenters.fleet_text import nodes_sentence

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
        "gaps": render_gaps((*node.gaps, *each.gaps)),
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
    return "\n".join(",".join(csv_cell(_harmless(cell)) for cell in line) for line in lines)


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


INSTANCE_PAGE = "http://{instance}/"
"""An agent serves its page where it is scraped."""
_TEMPLATE = re.compile(
    r"(?P<scheme>https?)://(?P<host>[^/?#@]+)(?P<path>/[^\\\"'<>^`|\s]*)?\Z", re.IGNORECASE | re.ASCII
)
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_PLACE = re.compile(r"\{([^{}]*)\}")
_HOST = re.compile(r"(?:[A-Za-z0-9](?:[A-Za-z0-9._-]{0,252})|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?\Z")
_HINT = "--node-page http://{instance}/, or {node}, or any label"


class NodeLinks:
    """`of` gives the address, or None where what is known makes none."""

    def __init__(self, template: str) -> None:
        found = _TEMPLATE.match(template)
        bare = _PLACE.sub("x", template)
        if found is None or not _HOST.match(_PLACE.sub("x", found["host"])):
            raise UsageError(f"cannot use the address {template!r}", "it is not http://HOST/ or https://HOST/", _HINT)
        if not re.fullmatch(r"[!-~]+", bare) or {"{", "}"} & set(bare):
            raise UsageError(f"cannot use the address {template!r}", "it holds what no address may hold", _HINT)
        self._scheme, self._host, self._path = found["scheme"].lower(), found["host"], found["path"] or "/"

    def of(self, node: str, labels: Mapping[str, str], instance: str | None) -> str | None:
        known = {**labels, "node": node}
        if instance is not None:
            known["instance"] = instance
        try:
            host = _PLACE.sub(lambda match: known[match[1]], self._host)
            path = _PLACE.sub(lambda match: _encoded(known[match[1]]), self._path)
        except KeyError:
            return None
        return f"{self._scheme}://{host}{path}" if _HOST.match(host) else None


def _encoded(text: str) -> str:
    return "".join(chr(byte) if byte in _UNRESERVED else f"%{byte:02X}" for byte in raw(text))


Line = Sequence[tuple[float, float]]
MOST_COHORTS = 200
_NUMBERS = (
    ("zombies", "zombies", "", 1.0),
    ("growth_per_hour", "growth", "per hour", 0.1),
    ("saturated_seconds", "saturated cores", "seconds in the last hour", 0.1),
    ("resets", "network resets", "in the last day", 0.1),
    ("restarts", "restarts of looping units", "in the last hour", 0.1),
    ("live", "live memory cgroups", "", 1.0),
    ("counted", "memory cgroups counted", "", 1.0),
)
"""What cells can be coloured by: field, title, unit, and how finely it is sent."""


def render_fleet_page(judged: Sequence[JudgedNode], fleet: Fleet, links: NodeLinks | None) -> Json:
    """The sickest first, as `fleet nodes` has them."""
    nodes = [each.node for each in judged]
    names = sorted({name for node in nodes for name in node.labels})
    columns = {
        "node": render_column([shown_text(node.name) for node in nodes]),
        "severity": render_column([str(each.severity) for each in judged]),
        "findings": render_column([" ".join(sorted(map(shown_text, node.findings))) or None for node in nodes]),
        "reached_at": render_numbers([node.reached_at for node in nodes]),
        "untold": render_column(
            ["; ".join(f"{gap.fact}: {gap.reason}" for gap in (*each.node.gaps, *each.gaps)) or None for each in judged]
        ),
        "page": render_column(
            [links.of(node.name, node.labels, fleet.addresses.get(node.name)) if links else None for node in nodes]
        ),
    }
    for field, _, _, scale in _NUMBERS:
        columns[field] = render_numbers([getattr(node, field) for node in nodes], scale)
    return {
        "schema": "zombiescope.page-fleet/1",
        "at": fleet.taken_at,
        "source": shown_text(fleet.source),
        "verdict": nodes_sentence(judged),
        "severity": str(worst_of(judged)),
        "count": len(nodes),
        "numbers": [{"id": field, "title": title, "unit": unit} for field, title, unit, _ in _NUMBERS],
        "columns": columns,
        "labels": [
            {"name": shown_text(name), **render_column([_label(node.labels.get(name)) for node in nodes])}
            for name in names
        ],
        "gaps": render_gaps(fleet.gaps),
    }


def worst_of(judged: Sequence[JudgedNode]) -> Severity:
    return judged[0].severity if judged else Severity.UNKNOWN


def render_cohorts_page(
    compared: Comparison,
    sick: str,
    since: Mapping[Labels, float],
    lines: Mapping[Labels, Line],
    gaps: Sequence[Gap],
) -> Json:
    body = render_cohorts(compared, sick, since, verdict_of(compared, since), MOST_COHORTS)
    order: list[Cohort] = [cause.cohort for cause in compared.causes]
    explained = sorted(compared.explained, key=lambda each: len(each.cohort.labels))
    order += [each.cohort for each in explained] + list(compared.others)
    readings = {cause.cohort.labels: "the cause" for cause in compared.causes}
    readings |= {each.cohort.labels: f"through {named(each.by)}" for each in explained}
    for row, cohort in zip(body["cohorts"], order, strict=False):
        row["reading"] = readings.get(cohort.labels) or _reading(cohort)
        row["line"] = [[round(at), round(value, 1)] for at, value in lines.get(cohort.labels, ())]
    return {
        "schema": "zombiescope.page-cohorts/1",
        **body,
        "least_nodes": LEAST_NODES,
        "most_q": MOST_Q,
        "gaps": render_gaps(gaps),
    }


def _reading(cohort: Cohort) -> str:
    if cohort.q_value > MOST_Q:
        return "may be chance"
    return "fewer sick nodes than elsewhere" if cohort.odds.value < 1 else "worse, by too little to be called a cause"


def _label(value: str | None) -> str | None:
    return None if value is None else shown_text(value)
