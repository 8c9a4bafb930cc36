# SPDX-License-Identifier: Apache-2.0
"""Grafana dashboards over the metrics of the agent, of a node and of a fleet. Names come from `facts.metric_names`; every
expression is run in a test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from zombiescope.facts import metric_names as names
from zombiescope.presenters.document import Json
from zombiescope.presenters.prometheus_rules import (
    FLEET_ZOMBIES,
    GROWING_NOW,
    NODES,
    SHARE_GROWING,
    SHARE_SICK,
    SICK_NOW,
    STANDS_OUT,
    UP,
    cohort_labels,
)

_SOURCE = {"type": "prometheus", "uid": "${source}"}
_HERE = '{instance=~"$instance"}'
_WORST, _ALL = '{cores="worst",instance=~"$instance"}', '{cores="all",instance=~"$instance"}'
_CADVISOR = f"rate(container_cpu_cfs_throttled_periods_total{_HERE}[5m]) / (rate(container_cpu_cfs_periods_total{_HERE}[5m]) > 0)"
_WIDTH, _HEIGHT, _COLUMNS = 12, 8, 2


class Panel(NamedTuple):
    title: str
    unit: str
    expressions: tuple[tuple[str, str], ...]
    """What is drawn, and its legend."""


def _here(metric: names.Metric) -> str:
    return metric.name + _HERE


PANELS = (
    Panel("Zombies and live memory cgroups", "short", ((_here(names.ZOMBIES), "zombies"), (_here(names.LIVE), "live"))),
    Panel("Zombies by maker", "short", ((_here(names.MAKER_ZOMBIES), "{{maker}}"),)),
    Panel(
        "Births, deaths, releases",
        "ops",
        tuple(
            (f"rate({_here(metric)}[5m])", word)
            for metric, word in ((names.BIRTHS, "births"), (names.DEATHS, "deaths"), (names.RELEASES, "releases"))
        ),
    ),
    Panel("Growth per hour", "short", ((f"{_here(names.GROWTH)} * 3600", "zombies per hour"),)),
    Panel("Time to the next threshold", "s", ((_here(names.THRESHOLD), "seconds"),)),
    Panel(
        "Bytes that zombies hold",
        "bytes",
        ((_here(names.ZOMBIE_BYTES), "{{kind}}"), (_here(names.KERNEL_BYTES), "kernel (estimate)")),
    ),
    Panel(
        "One sweep of all statistics",
        "s",
        ((f"rate({names.SWEEP.name}_sum{_HERE}[15m]) / rate({names.SWEEP.name}_count{_HERE}[15m])", "mean"),),
    ),
    Panel(
        "Cores saturated in the kernel",
        "percentunit",
        ((f"rate({_here(names.CORE_SATURATED)}[5m])", "{{mode}} (cores)"),),
    ),
    Panel(
        "Network card resets",
        "short",
        (
            (f"sum without (reason) (increase({_here(names.NIC_RESETS)}[15m]))", "{{device}}"),
            (f"increase(node_ethtool_total_resets{_HERE}[15m])", "{{device}} (node_exporter)"),
        ),
    ),
    Panel(
        "Poll latency: what one packet in a thousand waits for its core",
        "s",
        (
            (_here(names.POLL_WAIT_P999), "worst core, last minute"),
            (f"histogram_quantile(0.999, rate({names.POLL_WAIT.name}_bucket{_WORST}[5m]))", "of softirqs, worst core"),
            (f"histogram_quantile(0.999, rate({names.POLL_WAIT.name}_bucket{_ALL}[5m]))", "of softirqs, all cores"),
            (f"histogram_quantile(0.999, rate({names.POLL_RUN.name}_bucket{_WORST}[5m]))", "one poll, worst core"),
        ),
    ),
    Panel(
        "Softirqs that wait, packets dropped before a core took them",
        "short",
        (
            (f"rate({_here(names.SOFTIRQ_WAIT)}[5m])", "ksoftirqd waits (cores)"),
            (f"sum without (cpu) (rate(node_softnet_dropped_total{_HERE}[5m]))", "dropped per second (node_exporter)"),
            (
                f"sum without (cpu) (rate(node_softnet_times_squeezed_total{_HERE}[5m]))",
                "cut short per second (node_exporter)",
            ),
        ),
    ),
    Panel(
        "Reclaim and throttling on one axis: together is not because",
        "percentunit",
        (
            (f"sum without (who) (rate({_here(names.RECLAIM_CPU)}[5m]))", "reclaim (cores)"),
            (_here(names.THROTTLED_SHARE), "most throttled cgroup (share of its periods)"),
            (f"rate({_here(names.THROTTLED)}[5m])", "held by quotas (seconds per second)"),
            (f"max by (instance) ({_CADVISOR})", "most throttled container (cAdvisor)"),
        ),
    ),
    Panel(
        "Pressure: time that tasks wait",
        "percentunit",
        (
            (f"rate({_here(names.PRESSURE)}[5m])", "{{resource}} {{kind}}"),
            (f"rate(node_pressure_memory_waiting_seconds_total{_HERE}[5m])", "memory some (node_exporter)"),
        ),
    ),
    Panel(
        "Readers of cgroup statistics, in the kernel",
        "percentunit",
        ((f"rate({_here(names.SWEEPERS)}[5m])", "of a core"),),
    ),
    Panel(
        "Major faults per second",
        "short",
        (
            (f"rate({_here(names.MAJOR_FAULTS)}[5m])", "major faults"),
            (f"rate(node_vmstat_pgmajfault{_HERE}[5m])", "major faults (node_exporter)"),
        ),
    ),
    Panel("Restarts of units that loop", "short", ((f"increase({_here(names.UNIT_RESTARTS)}[15m])", "{{unit}}"),)),
    Panel("Findings", "short", ((_here(names.FINDING), "{{id}} ({{severity}})"),)),
    Panel("What looking costs", "s", ((_here(names.PROBE_SECONDS), "{{probe}}"),)),
    Panel(
        "Probes that fail, events lost",
        "short",
        ((f"{_here(names.PROBE_SUCCESS)} == 0", "{{probe}}"), (f"increase({_here(names.EVENTS_LOST)}[15m])", "lost")),
    ),
)


def render_dashboard() -> Json:
    return render_panels("Zombiescope", "zombiescope", PANELS, "{{instance}} ", _instances())


def render_panels(title: str, uid: str, panels: tuple[Panel, ...], before: str = "", *variables: Json) -> Json:
    """`before`: what begins every legend."""
    return {
        "title": title,
        "uid": uid,
        "tags": ["cgroups", "memory"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {"list": [_SOURCE, *variables]},
        "panels": [_panel(number, panel, before) for number, panel in enumerate(panels)],
    }


def _panel(number: int, panel: Panel, before: str) -> Json:
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": _SOURCE,
        "gridPos": {"h": _HEIGHT, "w": _WIDTH, "x": number % _COLUMNS * _WIDTH, "y": number // _COLUMNS * _HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {
                "refId": chr(65 + index),
                "datasource": _SOURCE,
                "expr": expression,
                "legendFormat": before + legend,
            }
            for index, (expression, legend) in enumerate(panel.expressions)
        ],
    }


_SOURCE = {"name": "source", "type": "datasource", "query": "prometheus", "label": "Prometheus"}


def _instances() -> Json:
    return {
        "name": "instance",
        "type": "query",
        "datasource": _SOURCE,
        "query": f"label_values({names.COUNTED.name}, instance)",
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
    }


def fleet_panels(labels: Sequence[str]) -> tuple[Panel, ...]:
    told = (NODES, "told of"), (SICK_NOW, "sick"), (GROWING_NOW, "growing"), (f"count({UP} == 0)", "silent agents")
    spread = [
        (f"{FLEET_ZOMBIES}:p50", "middle"),
        (f"{FLEET_ZOMBIES}:p99", "one in a hundred"),
        (f"max({names.ZOMBIES.name})", "most"),
    ]
    resets = f"count(sum by (instance) (increase({names.NIC_RESETS.name}[1h])) > 0)"
    panels = [
        Panel(
            "Share of nodes that grow, and that are sick",
            "percentunit",
            ((SHARE_GROWING, "growing"), (SHARE_SICK, "sick")),
        ),
        Panel("Nodes", "short", told),
        Panel("Zombies of a node", "short", tuple(spread)),
        Panel("Zombies of all nodes", "short", ((f"{FLEET_ZOMBIES}:sum", "zombies"),)),
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
    return render_panels("Zombiescope fleet", "zombiescope-fleet", fleet_panels(cohort_labels(asked)))
