# SPDX-License-Identifier: Apache-2.0
"""A fleet for the page: every node as columns (`page-fleet/1`), and what sets the sick ones apart (`page-cohorts/1`)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from zombiescope.analysis.cohorts import Cohort, Comparison, Labels
from zombiescope.analysis.exact_test import LEAST_NODES, MOST_Q
from zombiescope.diagnosis.fleet_health import JudgedNode, named
from zombiescope.diagnosis.thresholds import Severity
from zombiescope.errors import UsageError
from zombiescope.facts.fleet import Fleet
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import raw, shown_text
from zombiescope.presenters.document import Json, render_column, render_numbers
from zombiescope.presenters.fleet_json import render_cohorts, verdict_of
from zombiescope.presenters.fleet_text import nodes_sentence

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
        "untold": render_column([_reasons(each) for each in judged]),
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
        "gaps": _gaps(fleet.gaps),
    }


def worst_of(judged: Sequence[JudgedNode]) -> Severity:
    return judged[0].severity if judged else Severity.UNKNOWN


def _reasons(each: JudgedNode) -> str | None:
    reasons = [f"{gap.fact}: {gap.reason}" for gap in (*each.node.gaps, *each.gaps)]
    return "; ".join(reasons) or None


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
        "gaps": _gaps(gaps),
    }


def _reading(cohort: Cohort) -> str:
    if cohort.q_value > MOST_Q:
        return "may be chance"
    return "fewer sick nodes than elsewhere" if cohort.odds.value < 1 else "worse, by too little to be called a cause"


def _gaps(gaps: Sequence[Gap]) -> list[Json]:
    return [{"fact": gap.fact, "reason": gap.reason, "hint": gap.hint} for gap in gaps]


def _label(value: str | None) -> str | None:
    return None if value is None else shown_text(value)
