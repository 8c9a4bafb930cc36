# SPDX-License-Identifier: Apache-2.0
"""Rules, a dashboard and a stream aggregation for fleets: shares of nodes, and cohorts that stand out. Names of our metrics come
from `facts.metric_names`; every expression is run by a real server in a test.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from zombiescope.analysis.exact_test import LEAST_NODES
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.errors import UsageError
from zombiescope.facts import metric_names as names
from zombiescope.presenters.document import Json
from zombiescope.presenters.grafana_dashboard import Panel, render_panels
from zombiescope.presenters.prometheus_rules import RUNBOOK, USUAL, Alert, Record, render_group

OF_OUR_NODE = names.NODE.labels
"""Told by our own series of information; every other label must be one that the scrape adds."""
_OF_OURS_ALONE = tuple(label for label in OF_OUR_NODE if label != "cluster")
"""A cluster's name is told by most scrapes, too, on every series: only then can a stream be grouped by it."""
USUAL_LABELS = ("kernel", "image")
GROWING, SICK, NODES = (
    "fleet:zombiescope_nodes_growing:share",
    "fleet:zombiescope_nodes_sick:share",
    "fleet:zombiescope_nodes:count",
)
GROWING_NOW = "fleet:zombiescope_nodes_growing:count"
_ZOMBIES = "fleet:zombiescope_memcg_zombies"
SICK_NOW = "fleet:zombiescope_nodes_sick:count"
_LEAST_SHARE, _LEAST_GROWING, _LEAST_SICK, _SILENT_SHARE = 0.05, 3, 3, 0.1
STANDS_OUT = 4.0
"""Standard deviations: by chance one cohort in thirty thousand, and a fleet has hundreds."""
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_UP = 'up{job="zombiescope"}'


def cohort_labels(asked: Sequence[str]) -> tuple[str, ...]:
    for label in asked:
        if not _LABEL.match(label):
            why = "a label of a series has letters, digits and _"
            raise UsageError(f"cannot group by {label!r}", why, "--by zone --by image")
    return tuple(dict.fromkeys(asked)) or USUAL_LABELS


def _of(metric: names.Metric, label: str) -> str:
    """The series of each node with the label, from the scrape or from our series of information."""
    if label not in OF_OUR_NODE:
        return metric.name
    told = f"max by (instance, {label}) ({names.NODE.name})"
    return f"({metric.name} * on (instance) group_left ({label}) {told})"


def fleet_records(labels: Sequence[str], limits: Thresholds = USUAL) -> tuple[Record, ...]:
    growing, sick = f">= bool {limits.growth_warning_per_hour / 3600:.10g}", f">= bool {limits.zombies_warning}"
    records = [
        Record(NODES, f"count({names.ZOMBIES.name})"),
        Record(GROWING_NOW, f"sum({names.GROWTH.name} {growing})"),
        Record(GROWING, f"{GROWING_NOW} / count({names.GROWTH.name})"),
        Record(SICK_NOW, f"sum({names.ZOMBIES.name} {sick})"),
        Record(SICK, f"{SICK_NOW} / {NODES}"),
        Record(f"{_ZOMBIES}:sum", f"sum({names.ZOMBIES.name})"),
        Record(f"{_ZOMBIES}:p50", f"quantile(0.5, {names.ZOMBIES.name})"),
        Record(f"{_ZOMBIES}:p99", f"quantile(0.99, {names.ZOMBIES.name})"),
    ]
    for label in labels:
        zombies, growth = _of(names.ZOMBIES, label), _of(names.GROWTH, label)
        records += [
            Record(f"{label}:zombiescope_nodes:count", f"count by ({label}) ({zombies})"),
            Record(f"{label}:zombiescope_nodes_sick:count", f"sum by ({label}) ({zombies} {sick})"),
            Record(
                f"{label}:zombiescope_nodes_sick:share",
                f"{label}:zombiescope_nodes_sick:count / {label}:zombiescope_nodes:count",
            ),
            Record(
                f"{label}:zombiescope_nodes_growing:share",
                f"sum by ({label}) ({growth} {growing}) / count by ({label}) ({growth})",
            ),
            Record(f"{label}:zombiescope_nodes_sick:deviations", _deviations(label)),
        ]
    return tuple(records)


def _deviations(label: str) -> str:
    """How far its share is from the fleet's, in standard deviations of as many nodes taken from the fleet without a choice."""
    share, nodes = f"{label}:zombiescope_nodes_sick:share", f"{label}:zombiescope_nodes:count"
    fleet, all_nodes = f"scalar({SICK})", f"scalar({NODES})"
    spread = f"sqrt({fleet} * (1 - {fleet}) * (1 / {nodes} - 1 / {all_nodes}))"
    return f"({share} - {fleet}) / ({spread} > 0)"


def fleet_alerts(labels: Sequence[str]) -> tuple[Alert, ...]:
    alerts = [
        Alert("FleetZombiesGrowing", f"{GROWING} > {_LEAST_SHARE:g} and {GROWING_NOW} >= {_LEAST_GROWING}", "15m", "warning",
              "{{ $value | humanizePercentage }} of all nodes make more zombie memory cgroups than they release; "
              "zombiescope fleet cohorts says what they share", "growth"),
        Alert("FleetZombiesSick", f"{SICK} > {_LEAST_SHARE:g} and {SICK_NOW} >= {_LEAST_SICK}", "15m", "warning",
              "{{ $value | humanizePercentage }} of all nodes have too many zombie memory cgroups; "
              "zombiescope fleet cohorts says what they share", "stock"),
        Alert("FleetAgentsSilent", f"avg({_UP} == bool 0) > {_SILENT_SHARE:g}", "15m", "warning",
              "{{ $value | humanizePercentage }} of the zombiescope agents do not answer: their nodes are not judged"),
    ]  # fmt: skip
    for label in labels:
        value = f"{{{{ $labels.{label} }}}}"
        alerts.append(
            Alert(
                f"FleetCohortOutlier{''.join(part.capitalize() for part in label.split('_'))}",
                f"{label}:zombiescope_nodes_sick:deviations > {STANDS_OUT:g} and {label}:zombiescope_nodes:count >= {LEAST_NODES} "
                f"and {label}:zombiescope_nodes_sick:count >= {_LEAST_SICK}",
                "15m",
                "warning",
                f"nodes with {label} {value} are sick far more often than the others ({{{{ $value | humanize }}}} standard "
                "deviations); zombiescope fleet cohorts tells whether that is the cause or only through another label",
                "stock",
            )
        )
    return tuple(alerts)


def render_fleet_rules(asked: Sequence[str] = (), runbook: str = RUNBOOK, limits: Thresholds = USUAL) -> str:
    labels = cohort_labels(asked)
    lines = [
        "# Zombiescope: recording and alert rules for fleets. Check: promtool check rules FILE",
        f"# Cohorts by {', '.join(labels)}. kernel, hierarchy and image come from the agent; any other label must be on",
        "# its series, as a scrape adds it. A label that no series has makes no alert.",
        "groups:",
    ]
    lines += render_group("zombiescope.fleet.records", fleet_records(labels, limits), (), runbook)
    lines += render_group("zombiescope.fleet.alerts", (), fleet_alerts(labels), runbook)
    return "\n".join(lines) + "\n"


def fleet_panels(labels: Sequence[str]) -> tuple[Panel, ...]:
    told = (NODES, "told of"), (SICK_NOW, "sick"), (GROWING_NOW, "growing"), (f"count({_UP} == 0)", "silent agents")
    spread = [
        (f"{_ZOMBIES}:p50", "middle"),
        (f"{_ZOMBIES}:p99", "one in a hundred"),
        (f"max({names.ZOMBIES.name})", "most"),
    ]
    resets = f"count(sum by (instance) (increase({names.NIC_RESETS.name}[1h])) > 0)"
    panels = [
        Panel("Share of nodes that grow, and that are sick", "percentunit", ((GROWING, "growing"), (SICK, "sick"))),
        Panel("Nodes", "short", told),
        Panel("Zombies of a node", "short", tuple(spread)),
        Panel("Zombies of all nodes", "short", ((f"{_ZOMBIES}:sum", "zombies"),)),
        Panel("The ten nodes with most zombies", "short", ((f"topk(10, {names.ZOMBIES.name})", "{{instance}}"),)),
        Panel(
            "The ten that grow fastest, per hour", "short", ((f"topk(10, {names.GROWTH.name} * 3600)", "{{instance}}"),)
        ),
        Panel("Nodes by finding", "short", ((f"count by (id) ({names.FINDING.name})", "{{id}}"),)),
        Panel("Nodes whose network cards were reset in the last hour", "short", ((resets, "nodes"),)),
    ]
    for label in labels:
        legend = f"{{{{{label}}}}}"
        panels += [
            Panel(
                f"Share of sick nodes by {label}", "percentunit", ((f"{label}:zombiescope_nodes_sick:share", legend),)
            ),
            Panel(
                f"Standard deviations from the fleet by {label}: above {STANDS_OUT:g} is an outlier",
                "short",
                ((f"{label}:zombiescope_nodes_sick:deviations", legend),),
            ),
        ]
    return tuple(panels)


def render_fleet_dashboard(asked: Sequence[str] = ()) -> Json:
    panels = fleet_panels(cohort_labels(asked))
    return render_panels("Zombiescope fleet", "zombiescope-fleet", panels)


def render_stream_aggregation(asked: Sequence[str] = (), interval: str = "1m") -> str:
    """For vmagent: what a central server needs of many nodes, worked out before anything is sent."""
    labels = [label for label in cohort_labels(asked) if label not in _OF_OURS_ALONE]
    numbers = "[count_series, avg, max, 'quantiles(0.5, 0.99)']"
    rules = [
        (names.ZOMBIES.name, labels, numbers),
        (names.GROWTH.name, labels, numbers),
        (names.FINDING.name, ["id", "severity", *labels], "[count_series]"),
        (names.NODE.name, [*_OF_OURS_ALONE, *labels], "[count_series]"),
    ]
    lines = [
        "# Zombiescope: stream aggregation for vmagent 1.86 or later. Instead of every node's series a central server gets,",
        f"# once per {interval}, how many nodes there are, their mean, most, middle and one in a hundred, and how many have each",
        "# finding.",
        "#   vmagent -promscrape.config=scrape.yml -remoteWrite.url=http://CENTRAL:8428/api/v1/write \\",
        "#     -remoteWrite.streamAggr.config=THIS_FILE -remoteWrite.streamAggr.dropInput=true",
        "# `zombiescope fleet` needs the series of each node: keep them (-remoteWrite.streamAggr.keepInput=true), or send them",
        "# to another -remoteWrite.url near the nodes and ask that one.",
    ]
    for metric, by, outputs in rules:
        lines += [f"- match: {metric}", f"  interval: {interval}", _grouped(by), f"  outputs: {outputs}"]
    return "\n".join(lines) + "\n"


def _grouped(by: Sequence[str]) -> str:
    """Without any label vmagent would keep them all, and so every node."""
    return f"  by: [{', '.join(by)}]" if by else "  without: [instance]"
