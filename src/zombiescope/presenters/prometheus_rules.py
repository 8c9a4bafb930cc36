# SPDX-License-Identifier: Apache-2.0
"""Recording and alert rules in YAML. Names of our metrics come from `facts.metric_names`; those of others are as node_exporter and
cAdvisor really export them."""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.diagnosis.thresholds import Thresholds
from zombiescope.facts import metric_names as names

RUNBOOK = "docs/guides/alerts.md"
NODE_EXPORTER_FLAGS = (
    "--collector.cgroups --collector.slabinfo --collector.slabinfo.slabs-include='^mem_cgroup$' "
    "--collector.vmstat.fields='^(oom_kill|pgpg|pswp|pg.*fault|pgscan_.*|pgsteal_.*|allocstall_.*)'"
)
USUAL = Thresholds()


class Alert(NamedTuple):
    name: str
    expression: str
    lasting: str
    severity: str
    summary: str


class Record(NamedTuple):
    name: str
    expression: str


EXPECTED = "ZombieMemcgExpected"
"""Only where it is configured how many live cgroups there are meant to be."""
RATIO = "instance:zombiescope_memcg:ratio"
SWEEP_MEAN = "instance:zombiescope_stat_sweep_seconds:mean15m"
RECLAIM = "instance:node_vmstat_pgscan_direct:rate5m"
THROTTLED = "container:container_cpu_cfs_throttled:ratio_rate5m"

RECORDS = (
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
    per_hour = f"{limits.growth_warning_per_hour:g}"
    return {
        "ZombieMemcgPopulation": f"{names.ZOMBIES.name} >= {limits.zombies_warning}",
        "ZombieMemcgPopulationCritical": f"{names.ZOMBIES.name} >= {limits.zombies_critical}",
        "ZombieMemcgRatio": ratio,
        "ZombieMemcgRatioCritical": worse,
        EXPECTED: expected,
        "ZombieMemcgThresholdSoon": f"{names.THRESHOLD.name} < 86400 and {names.ZOMBIES.name} >= {limits.ratio_least_zombies}",
        "ZombieStatSweepSlow": f"{SWEEP_MEAN} >= {limits.sweep_warning_seconds:g}",
        "CpuThrottledByQuota": f"{THROTTLED} > {limits.throttled_share:g}",
        "NodeMemcgGrowing": f'deriv(node_cgroups_cgroups{{subsys_name="memory"}}[1h]) * 3600 > {per_hour}',
    }


_USUALLY = _measured(USUAL)
ALERTS = (
    Alert("ZombieMemcgPopulation", _USUALLY["ZombieMemcgPopulation"], "10m", "warning",
          "{{ $labels.instance }}: {{ $value }} zombie memory cgroups"),
    Alert("ZombieMemcgPopulationCritical", _USUALLY["ZombieMemcgPopulationCritical"], "5m", "critical",
          "{{ $labels.instance }}: {{ $value }} zombie memory cgroups"),
    Alert("ZombieMemcgGrowing", f'max without (severity) ({names.FINDING.name}{{id="zombie-growth"}}) == 1', "2m", "warning",
          "{{ $labels.instance }}: zombie memory cgroups are leaking; zombiescope history names the maker"),
    Alert("ZombieMemcgRatio", _USUALLY["ZombieMemcgRatio"], "15m", "warning",
          "{{ $labels.instance }}: {{ $value | humanize }} memory cgroups counted for each live one"),
    Alert("ZombieMemcgRatioCritical", _USUALLY["ZombieMemcgRatioCritical"], "5m", "critical",
          "{{ $labels.instance }}: {{ $value | humanize }} memory cgroups counted for each live one"),
    Alert(EXPECTED, _USUALLY[EXPECTED], "15m", "warning",
          "{{ $labels.instance }}: {{ $value }} memory cgroups counted, many times as many as are expected here"),
    Alert("ZombieMemcgHarm",
          f'max without (severity) ({names.FINDING.name}{{id=~"costly-reclaim-walk|costly-sweep",severity="critical"}}) == 1',
          "5m", "critical", "{{ $labels.instance }}: zombie memory cgroups hold a core; zombiescope doctor names their maker"),
    Alert("ZombieMemcgThresholdSoon", _USUALLY["ZombieMemcgThresholdSoon"], "30m", "warning",
          "{{ $labels.instance }}: the next threshold is reached in {{ $value | humanizeDuration }}"),
    Alert("ZombieStatSweepSlow", _USUALLY["ZombieStatSweepSlow"], "15m", "warning",
          "{{ $labels.instance }}: reading all cgroup statistics once takes {{ $value | humanizeDuration }}"),
    Alert("CoreSaturatedInKernel",
          f'sum without (mode) (increase({names.CORE_SATURATED.name}{{mode!="steal"}}[10m])) > 30', "5m", "warning",
          "{{ $labels.instance }}: cores were saturated in the kernel for {{ $value | humanizeDuration }} of the last 10 minutes"),
    Alert("UnitRestartsForEver", f"increase({names.UNIT_RESTARTS.name}[1h]) >= 3", "15m", "warning",
          "{{ $labels.instance }}: systemd restarts {{ $labels.unit }} over and over; each run may leave a zombie"),
    Alert("ZombiescopeEventsLost", f"increase({names.EVENTS_LOST.name}[15m]) > 0", "5m", "info",
          "{{ $labels.instance }}: {{ $value }} births, deaths or releases were missed"),
    Alert("ZombiescopeProbeFailing", f"{names.PROBE_SUCCESS.name} == 0", "30m", "info",
          "{{ $labels.instance }}: the probe {{ $labels.probe }} gives no fact"),
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
          "{{ $labels.instance }}: processes scan {{ $value | humanize }} pages per second themselves (node_exporter)"),
    Alert("CpuThrottledByQuota", _USUALLY["CpuThrottledByQuota"], "15m", "info",
          "{{ $labels.instance }}: a container is held by its cpu.max in {{ $value | humanizePercentage }} of periods (cAdvisor)"),
    Alert("NodeMemcgCounted", 'node_cgroups_cgroups{subsys_name="memory"} > 5000', "15m", "warning",
          "{{ $labels.instance }}: {{ $value }} memory cgroups counted; compare with the directories (node_exporter)"),
    Alert("NodeMemcgGrowing", _USUALLY["NodeMemcgGrowing"], "1h", "warning",
          "{{ $labels.instance }}: {{ $value | humanize }} more memory cgroups per hour (node_exporter)"),
    Alert("NodeMemcgObjects", 'node_slabinfo_active_objects{slab="mem_cgroup"} > 5000', "15m", "warning",
          "{{ $labels.instance }}: {{ $value }} mem_cgroup objects in the slab: a second witness (node_exporter)"),
)  # fmt: skip


def render_rules(runbook: str = RUNBOOK, limits: Thresholds = USUAL) -> str:
    lines = ["# Zombiescope: recording and alert rules. Check: promtool check rules FILE", "groups:"]
    lines += _group("zombiescope.records", RECORDS, (), runbook)
    lines += _group("zombiescope.alerts", (), _by(limits, ALERTS), runbook)
    lines += [
        "# Of others. node_exporter has these only with the flags:",
        f"#   {NODE_EXPORTER_FLAGS}",
        "# Two things that can coincide: DirectReclaimStalls is memory, CpuThrottledByQuota is cpu.max.",
    ]
    lines += _group("zombiescope.others", OTHERS_RECORDS, _by(limits, OTHERS_ALERTS), runbook)
    return "\n".join(lines) + "\n"


def _by(limits: Thresholds, alerts: tuple[Alert, ...]) -> tuple[Alert, ...]:
    measured = _measured(limits)
    asked = [alert for alert in alerts if alert.name != EXPECTED or limits.expected_live > 0]
    return tuple(alert._replace(expression=measured.get(alert.name, alert.expression)) for alert in asked)


def _group(name: str, records: tuple[Record, ...], alerts: tuple[Alert, ...], runbook: str) -> list[str]:
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
            f"      runbook_url: {_quoted(f'{runbook}#{alert.name.lower()}')}",
        ]
    return lines


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
