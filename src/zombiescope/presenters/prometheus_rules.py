# SPDX-License-Identifier: Apache-2.0
"""Recording and alert rules in YAML. Names of our metrics come from `facts.metric_names`; those of others are as node_exporter and
cAdvisor really export them."""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.diagnosis.thresholds import Thresholds
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
    Alert("ZombiescopeAgentDown", 'up{job="zombiescope"} == 0', "5m", "warning",
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
