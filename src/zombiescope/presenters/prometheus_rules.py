# SPDX-License-Identifier: Apache-2.0
"""Recording and alert rules in YAML, for a node and for fleets, and a stream aggregation. Names of our metrics come from
`facts.metric_names`, those of others are as node_exporter and cAdvisor really export them; every expression is run by a real server
in a test."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from zombiescope.analysis.exact_test import LEAST_NODES
from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.errors import UsageError
from zombiescope.facts import metric_names as names
from zombiescope.facts.softirq import GROWING

RUNBOOK = "docs/guides/runbook.md"
NODE_EXPORTER_FLAGS = (
    "--collector.cgroups --collector.slabinfo --collector.slabinfo.slabs-include='^mem_cgroup$' "
    "--collector.vmstat.fields='^(oom_kill|pgpg|pswp|pg.*fault|pgscan_.*|pgsteal_.*|allocstall_.*)' "
    "--collector.ethtool --collector.ethtool.metrics-include='^(total_resets|suspected_poll_starvation|tx_timeout)$'"
)
USUAL = Thresholds()


class Alert(NamedTuple):
    name: str
    expression: str
    lasting: str
    severity: str
    summary: str
    page: str = ""
    """Where the runbook tells what to do: an anchor of it."""


class Record(NamedTuple):
    name: str
    expression: str


EXPECTED = "ZombieMemcgExpected"
"""Only where it is configured how many live cgroups there are meant to be."""
RATIO = "instance:zombiescope_memcg:ratio"
SWEEP_MEAN = "instance:zombiescope_stat_sweep_seconds:mean15m"
RECLAIM = "instance:node_vmstat_pgscan_direct:rate5m"
THROTTLED = "container:container_cpu_cfs_throttled:ratio_rate5m"
_MEMORY = '{resource="memory",kind="some"}'

RECLAIM_SHARE = "instance:zombiescope_reclaim_cpu:rate5m"
POLL_TAIL = "instance:zombiescope_poll_wait_p999_seconds:avg2m"
_P999 = names.POLL_WAIT_P999.name
_BEFORE = f"(avg_over_time({_P999}[1h] offset 5m) or 0 * {_P999})"

RECORDS = (
    Record(RECLAIM_SHARE, f"sum without (who) (rate({names.RECLAIM_CPU.name}[5m]))"),
    Record(POLL_TAIL, f"avg_over_time({_P999}[2m])"),
    Record(RATIO, f"{names.COUNTED.name} / {names.LIVE.name}"),
    Record("instance:zombiescope_memcg_births:rate5m", f"rate({names.BIRTHS.name}[5m])"),
    Record(SWEEP_MEAN, f"rate({names.SWEEP.name}_sum[15m]) / (rate({names.SWEEP.name}_count[15m]) > 0)"),
)

OF_OUR_NODE = names.NODE.labels
"""Told by our own series of information; every other label must be one that the scrape adds."""
_OF_OURS_ALONE = tuple(label for label in OF_OUR_NODE if label != "cluster")
"""A cluster's name is told by most scrapes, too, on every series: only then can a stream be grouped by it."""
USUAL_LABELS = ("kernel", "image")
SHARE_GROWING, SHARE_SICK, NODES = (
    "fleet:zombiescope_nodes_growing:share",
    "fleet:zombiescope_nodes_sick:share",
    "fleet:zombiescope_nodes:count",
)
GROWING_NOW = "fleet:zombiescope_nodes_growing:count"
FLEET_ZOMBIES = "fleet:zombiescope_memcg_zombies"
SICK_NOW = "fleet:zombiescope_nodes_sick:count"
_LEAST_SHARE, _LEAST_GROWING, _LEAST_SICK, _SILENT_SHARE = 0.05, 3, 3, 0.1
STANDS_OUT = 4.0
"""Standard deviations: by chance one cohort in thirty thousand, and a fleet has hundreds."""
_LABEL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
UP = 'up{job="zombiescope"}'


def _measured(limits: Thresholds) -> dict[str, str]:
    """Expressions that compare with a threshold, by the name of their alert."""
    ratio = f"{RATIO} >= {limits.ratio_warning:g} and {names.ZOMBIES.name} >= {limits.ratio_least_zombies}"
    worse = f"{RATIO} >= {limits.ratio_critical:g} and {names.ZOMBIES.name} >= {limits.ratio_critical_zombies}"
    most = limits.expected_multiple * limits.expected_live
    expected = f"{names.COUNTED.name} >= {most:.10g} and {names.ZOMBIES.name} >= {limits.expected_live}"
    per_hour, slow = f"{limits.growth_warning_per_hour:g}", limits.softirq_wait_warning_seconds
    return {
        "ZombieMemcgPopulation": f"{names.ZOMBIES.name} >= {limits.zombies_warning}",
        "ZombieMemcgPopulationCritical": f"{names.ZOMBIES.name} >= {limits.zombies_critical}",
        "ZombieMemcgRatio": ratio,
        "ZombieMemcgRatioCritical": worse,
        EXPECTED: expected,
        "ZombieMemcgThresholdSoon": f"{names.THRESHOLD.name} < 86400 and {names.ZOMBIES.name} >= {limits.ratio_least_zombies}",
        "ZombieStatSweepSlow": f"{SWEEP_MEAN} >= {limits.sweep_warning_seconds:g}",
        "PollLatencyGrowing": f"{POLL_TAIL} > {slow:g} and {POLL_TAIL} > {GROWING:g} * {_BEFORE}",
        "PollLatencyCritical": f"{POLL_TAIL} >= {limits.softirq_wait_critical_seconds:g}",
        "ReclaimTakesCores": f"{RECLAIM_SHARE} > {limits.reclaim_share:g}",
        "MemoryPressure": f"rate({names.PRESSURE.name}{_MEMORY}[5m]) > {limits.memory_stall_share:g}",
        "CgroupThrottled": f"{names.THROTTLED_SHARE.name} > {limits.throttled_share:g}",
        "ReclaimAndThrottlingTogether": (
            f"{RECLAIM_SHARE} > {limits.reclaim_share:g} and {names.THROTTLED_SHARE.name} > {limits.throttled_share:g}"
        ),
        "NodeMemoryPressure": f"rate(node_pressure_memory_waiting_seconds_total[5m]) > {limits.memory_stall_share:g}",
        "CpuThrottledByQuota": f"{THROTTLED} > {limits.throttled_share:g}",
        "NodeMemcgGrowing": f'deriv(node_cgroups_cgroups{{subsys_name="memory"}}[1h]) * 3600 > {per_hour}',
    }


_USUALLY = _measured(USUAL)
ALERTS = (
    Alert("ZombieMemcgPopulation", _USUALLY["ZombieMemcgPopulation"], "10m", "warning",
          "{{ $labels.instance }}: {{ $value }} zombie memory cgroups", "stock"),
    Alert("ZombieMemcgPopulationCritical", _USUALLY["ZombieMemcgPopulationCritical"], "5m", "critical",
          "{{ $labels.instance }}: {{ $value }} zombie memory cgroups", "stock"),
    Alert("ZombieMemcgGrowing", f'max without (severity) ({names.FINDING.name}{{id="zombie-growth"}}) == 1', "2m", "warning",
          "{{ $labels.instance }}: zombie memory cgroups are leaking; zombiescope history names the maker", "growth"),
    Alert("ZombieMemcgRatio", _USUALLY["ZombieMemcgRatio"], "15m", "warning",
          "{{ $labels.instance }}: {{ $value | humanize }} memory cgroups counted for each live one", "stock"),
    Alert("ZombieMemcgRatioCritical", _USUALLY["ZombieMemcgRatioCritical"], "5m", "critical",
          "{{ $labels.instance }}: {{ $value | humanize }} memory cgroups counted for each live one", "stock"),
    Alert(EXPECTED, _USUALLY[EXPECTED], "15m", "warning",
          "{{ $labels.instance }}: {{ $value }} memory cgroups counted, many times as many as expected here", "stock"),
    Alert("ZombieMemcgHarm",
          f'max without (severity) ({names.FINDING.name}{{id=~"costly-reclaim-walk|costly-sweep",severity="critical"}}) == 1',
          "5m", "critical", "{{ $labels.instance }}: zombie memory cgroups hold a core; zombiescope doctor names their maker",
          "stock"),
    Alert("ZombieMemcgThresholdSoon", _USUALLY["ZombieMemcgThresholdSoon"], "30m", "warning",
          "{{ $labels.instance }}: the next threshold will be reached in {{ $value | humanizeDuration }}", "growth"),
    Alert("ZombieStatSweepSlow", _USUALLY["ZombieStatSweepSlow"], "15m", "warning",
          "{{ $labels.instance }}: reading all cgroup statistics once takes {{ $value | humanizeDuration }}", "sweepers"),
    Alert("CoreSaturatedInKernel",
          f'sum without (mode) (increase({names.CORE_SATURATED.name}{{mode!="steal"}}[10m])) > 30', "5m", "warning",
          "{{ $labels.instance }}: cores were saturated in the kernel for {{ $value | humanizeDuration }} of the last 10 minutes",
          "softirq-wait"),
    Alert("NicReset", f"sum without (reason) (increase({names.NIC_RESETS.name}[15m])) > 0", "0m", "critical",
          "{{ $labels.instance }}: the network card {{ $labels.device }} was reset in the last 15 minutes", "resets"),
    Alert("PollLatencyGrowing", _USUALLY["PollLatencyGrowing"], "2m", "warning",
          "{{ $labels.instance }}: one network packet in a thousand waits {{ $value | humanizeDuration }} for its "
          "core, and it grows; "
          "drivers reset the card after five seconds", "poll-latency"),
    Alert("PollLatencyCritical", _USUALLY["PollLatencyCritical"], "1m", "critical",
          "{{ $labels.instance }}: one network packet in a thousand waits {{ $value | humanizeDuration }} for its core; "
          "drivers reset the card after five seconds", "poll-latency"),
    Alert("SoftirqWaits", f"rate({names.SOFTIRQ_WAIT.name}[5m]) > 0.2", "10m", "warning",
          "{{ $labels.instance }}: ksoftirqd waits for its cores {{ $value | humanizePercentage }} of the time", "softirq-wait"),
    Alert("ReclaimTakesCores", _USUALLY["ReclaimTakesCores"], "10m", "warning",
          "{{ $labels.instance }}: reclaim takes {{ $value | humanizePercentage }} of a core", "reclaim"),
    Alert("MemoryPressure", _USUALLY["MemoryPressure"], "10m", "warning",
          "{{ $labels.instance }}: tasks wait for memory {{ $value | humanizePercentage }} of the time", "pressure"),
    Alert("CgroupThrottled", _USUALLY["CgroupThrottled"], "15m", "info",
          "{{ $labels.instance }}: a cgroup is throttled by its CPU quota in {{ $value | humanizePercentage }} of its periods",
          "throttling"),
    Alert("SweepersTakeCores", f"rate({names.SWEEPERS.name}[5m]) > 0.25", "15m", "warning",
          "{{ $labels.instance }}: readers of cgroup statistics spend {{ $value | humanizePercentage }} of a core in the kernel",
          "sweepers"),
    Alert("MajorFaultsHigh", f"rate({names.MAJOR_FAULTS.name}[5m]) > 100", "10m", "warning",
          "{{ $labels.instance }}: programs wait for {{ $value | humanize }} pages from disk per second", "major-faults"),
    Alert("ReclaimAndThrottlingTogether", _USUALLY["ReclaimAndThrottlingTogether"], "10m", "warning",
          "{{ $labels.instance }}: reclaim takes {{ $value | humanizePercentage }} of a core while a cgroup is "
          "throttled by its CPU quota: "
          "both at once, and neither is the cause of the other", "throttling"),
    Alert("UnitRestartsForEver", f"increase({names.UNIT_RESTARTS.name}[1h]) >= 3", "15m", "warning",
          "{{ $labels.instance }}: systemd restarts {{ $labels.unit }} over and over; each run may leave a zombie", "growth"),
    Alert("ZombiescopeEventsLost", f"increase({names.EVENTS_LOST.name}[15m]) > 0", "5m", "info",
          "{{ $labels.instance }}: {{ $value }} births, deaths or releases were missed"),
    Alert("ZombiescopeProbeFailing", f"{names.PROBE_SUCCESS.name} == 0", "30m", "info",
          "{{ $labels.instance }}: the probe {{ $labels.probe }} delivers nothing"),
    Alert("ZombiescopeAgentDown", f"{UP} == 0", "5m", "warning",
          "{{ $labels.instance }}: the zombiescope agent does not answer"),
)  # fmt: skip
OTHERS_RECORDS = (
    Record(RECLAIM, "rate(node_vmstat_pgscan_direct[5m])"),
    Record(
        THROTTLED,
        "rate(container_cpu_cfs_throttled_periods_total[5m]) / (rate(container_cpu_cfs_periods_total[5m]) > 0)",
    ),
)
OTHERS_ALERTS = (
    Alert("DirectReclaimStalls", f"{RECLAIM} > 1000", "10m", "warning",
          "{{ $labels.instance }}: processes scan {{ $value | humanize }} pages per second themselves (node_exporter)", "reclaim"),
    Alert("CpuThrottledByQuota", _USUALLY["CpuThrottledByQuota"], "15m", "info",
          "{{ $labels.instance }}: a container is throttled by cpu.max in {{ $value | humanizePercentage }} of periods (cAdvisor)",
          "throttling"),
    Alert("NodeNicReset", "increase(node_ethtool_total_resets[15m]) > 0", "0m", "critical",
          "{{ $labels.instance }}: the network card {{ $labels.device }} was reset in the last 15 minutes (node_exporter)",
          "resets"),
    Alert("NodeSoftnetDrops", "sum without (cpu) (rate(node_softnet_dropped_total[5m])) > 1", "10m", "warning",
          "{{ $labels.instance }}: {{ $value | humanize }} packets per second are dropped before a core takes them (node_exporter)",
          "softirq-wait"),
    Alert("NodeMemoryPressure", _USUALLY["NodeMemoryPressure"], "10m", "warning",
          "{{ $labels.instance }}: tasks wait for memory {{ $value | humanizePercentage }} of the time (node_exporter)",
          "pressure"),
    Alert("NodeMajorFaultsHigh", "rate(node_vmstat_pgmajfault[5m]) > 100", "10m", "warning",
          "{{ $labels.instance }}: programs wait for {{ $value | humanize }} pages from disk per second (node_exporter)",
          "major-faults"),
    Alert("DirectReclaimAndThrottlingTogether",
          f"{RECLAIM} > 1000 and on (instance) max by (instance) ({THROTTLED}) > {USUAL.throttled_share:g}", "10m", "warning",
          "{{ $labels.instance }}: processes scan {{ $value | humanize }} pages per second while a container is "
          "held by its CPU quota: "
          "together, and neither is the cause of the other (node_exporter, cAdvisor)", "throttling"),
    Alert("NodeMemcgCounted", 'node_cgroups_cgroups{subsys_name="memory"} > 5000', "15m", "warning",
          "{{ $labels.instance }}: {{ $value }} memory cgroups counted; compare with the directories (node_exporter)", "stock"),
    Alert("NodeMemcgGrowing", _USUALLY["NodeMemcgGrowing"], "1h", "warning",
          "{{ $labels.instance }}: {{ $value | humanize }} more memory cgroups per hour (node_exporter)", "growth"),
    Alert("NodeMemcgObjects", 'node_slabinfo_active_objects{slab="mem_cgroup"} > 5000', "15m", "warning",
          "{{ $labels.instance }}: {{ $value }} mem_cgroup objects in the slab; compare with the cgroups (node_exporter)", "stock"),
)  # fmt: skip


def render_rules(runbook: str = RUNBOOK, limits: Thresholds = USUAL) -> str:
    lines = ["# Zombiescope: recording and alert rules. Check: promtool check rules FILE", "groups:"]
    lines += render_group("zombiescope.records", RECORDS, (), runbook)
    lines += render_group("zombiescope.alerts", (), _by(limits, ALERTS), runbook)
    lines += [
        "# Of others. node_exporter has these only with the flags:",
        f"#   {NODE_EXPORTER_FLAGS}",
        "# Two things that can coincide: reclaim is memory, throttling is cpu.max; the rules named Together say when they do.",
    ]
    lines += render_group("zombiescope.others", OTHERS_RECORDS, _by(limits, OTHERS_ALERTS), runbook)
    return "\n".join(lines) + "\n"


def _by(limits: Thresholds, alerts: tuple[Alert, ...]) -> tuple[Alert, ...]:
    measured = _measured(limits)
    asked = [alert for alert in alerts if alert.name != EXPECTED or limits.expected_live > 0]
    return tuple(alert._replace(expression=measured.get(alert.name, alert.expression)) for alert in asked)


def render_group(name: str, records: tuple[Record, ...], alerts: tuple[Alert, ...], runbook: str) -> list[str]:
    lines = [f"- name: {name}", "  rules:"]
    for record in records:
        lines += [f"  - record: {record.name}", f"    expr: {_quoted(record.expression)}"]
    for alert in alerts:
        lines += [
            f"  - alert: {alert.name}",
            f"    expr: {_quoted(alert.expression)}",
            f"    for: {alert.lasting}",
            f"    labels: {{severity: {alert.severity}}}",
            "    annotations:",
            f"      summary: {_quoted(alert.summary)}",
            f"      runbook_url: {_quoted(f'{runbook}#{alert.page}' if alert.page else runbook)}",
        ]
    return lines


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


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
        Record(SHARE_GROWING, f"{GROWING_NOW} / count({names.GROWTH.name})"),
        Record(SICK_NOW, f"sum({names.ZOMBIES.name} {sick})"),
        Record(SHARE_SICK, f"{SICK_NOW} / {NODES}"),
        Record(f"{FLEET_ZOMBIES}:sum", f"sum({names.ZOMBIES.name})"),
        Record(f"{FLEET_ZOMBIES}:p50", f"quantile(0.5, {names.ZOMBIES.name})"),
        Record(f"{FLEET_ZOMBIES}:p99", f"quantile(0.99, {names.ZOMBIES.name})"),
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
    fleet, all_nodes = f"scalar({SHARE_SICK})", f"scalar({NODES})"
    spread = f"sqrt({fleet} * (1 - {fleet}) * (1 / {nodes} - 1 / {all_nodes}))"
    return f"({share} - {fleet}) / ({spread} > 0)"


def fleet_alerts(labels: Sequence[str]) -> tuple[Alert, ...]:
    alerts = [
        Alert("FleetZombiesGrowing", f"{SHARE_GROWING} > {_LEAST_SHARE:g} and {GROWING_NOW} >= {_LEAST_GROWING}", "15m", "warning",
              "{{ $value | humanizePercentage }} of all nodes make more zombie memory cgroups than they release; "
              "zombiescope fleet cohorts says what they share", "growth"),
        Alert("FleetZombiesSick", f"{SHARE_SICK} > {_LEAST_SHARE:g} and {SICK_NOW} >= {_LEAST_SICK}", "15m", "warning",
              "{{ $value | humanizePercentage }} of all nodes have too many zombie memory cgroups; "
              "zombiescope fleet cohorts says what they share", "stock"),
        Alert("FleetAgentsSilent", f"avg({UP} == bool 0) > {_SILENT_SHARE:g}", "15m", "warning",
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
        # Without any label vmagent would keep them all, and so every node.
        grouped = f"  by: [{', '.join(by)}]" if by else "  without: [instance]"
        lines += [f"- match: {metric}", f"  interval: {interval}", grouped, f"  outputs: {outputs}"]
    return "\n".join(lines) + "\n"
