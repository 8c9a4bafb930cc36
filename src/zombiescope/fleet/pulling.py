# SPDX-License-Identifier: Apache-2.0
"""One pull: a handful of instant queries, one number per node each, joined by node. Never raw series.

A node is the host of the `instance` label (two exporters on one node differ in the port), or the label that is asked for. Its
properties are the labels of our own series that no scrape adds, and those of the information series (kernel, image, zone).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

from zombiescope.facts import metric_names as ours
from zombiescope.facts.fleet import Fleet, FleetNode, SeriesSeen
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import shown
from zombiescope.fleet.server import MetricsServer, Point

_PORT = re.compile(r":\d+\Z")
_OF_THE_SCRAPE = frozenset({
    "__name__", "instance", "job", "endpoint", "service", "pod", "container", "namespace", "uid", "prometheus",
    "prometheus_replica", "replica", "id", "severity", "kind", "maker", "mode", "device", "reason", "unit", "probe", "le", "cpu",
    "subsys_name", "slab",
})  # fmt: skip
MEMORY_ROW = 'node_cgroups_cgroups{subsys_name="memory"}'
INFORMATION: Mapping[str, Mapping[str, str]] = {
    ours.NODE.name: {"kernel": "kernel", "hierarchy": "hierarchy", "image": "image"},
    "node_uname_info": {"release": "kernel", "machine": "machine"},
    "node_os_info": {"pretty_name": "os"},
    "kube_node_info": {
        "kernel_version": "kernel",
        "os_image": "os",
        "kubelet_version": "kubelet",
        "container_runtime_version": "runtime",
    },
}
"""Which of their labels are properties of a node, and what we call them."""
ASKED = (
    SeriesSeen(ours.ZOMBIES.name, "zombies per node", 0, None, "zombiescope agent on every node", is_needed=True),
    SeriesSeen(ours.GROWTH.name, "growth", 0, None, "zombiescope agent on every node", is_needed=True),
    SeriesSeen(ours.NODE.name, "kernel, hierarchy and image of a node", 0, None, "zombiescope agent", is_needed=True),
    SeriesSeen(ours.FINDING.name, "findings that are present", 0, None, "zombiescope agent (none: no finding)", False),
    SeriesSeen(ours.CORE_SATURATED.name, "saturated seconds", 0, None, "zombiescope agent", is_needed=False),
    SeriesSeen(ours.NIC_RESETS.name, "resets of network cards", 0, None, "zombiescope agent", is_needed=False),
    SeriesSeen(MEMORY_ROW, "cgroups counted, without our agent", 0, None, "node_exporter --collector.cgroups", False),
    SeriesSeen(
        'node_slabinfo_active_objects{slab="mem_cgroup"}',
        "a second count, where /proc/cgroups has no memory row",
        0,
        None,
        "node_exporter --collector.slabinfo (1.9: --collector.slabinfo.slabs-include=mem_cgroup)",
        is_needed=False,
    ),
    SeriesSeen(
        "node_vmstat_pgscan_direct",
        "direct reclaim, without our agent",
        0,
        None,
        "node_exporter --collector.vmstat.fields='^(oom_kill|pgpg|pswp|pg.*fault|pgscan_.*|pgsteal_.*|allocstall_.*)'",
        is_needed=False,
    ),
    SeriesSeen("node_uname_info", "the kernel, without our agent", 0, None, "node_exporter (on by default)", False),
    SeriesSeen("container_cpu_cfs_throttled_seconds_total", "throttling", 0, None, "kubelet's cAdvisor", False),
    SeriesSeen(
        "kube_node_labels",
        "zone, pool, instance type",
        0,
        None,
        "kube-state-metrics --metric-labels-allowlist=nodes=[*]",
        is_needed=False,
    ),
)  # fmt: skip

Progress = Callable[[str], None]
_MOST_ASKED = 60
_STEPS = 200


class _Gathering:
    """Numbers by node, one name after the other."""

    def __init__(self, server: MetricsServer, at: float, node_label: str | None, progress: Progress) -> None:
        self._server, self._at, self._node_label, self._progress = server, at, node_label, progress
        self.numbers: dict[str, dict[str, float]] = {}
        self.labels: dict[str, dict[str, str]] = {}
        self.findings: dict[str, dict[str, str]] = {}
        self.matchers: dict[str, tuple[str, str]] = {}
        self.doubled: set[str] = set()

    def ask(self, query: str) -> list[tuple[str, Point]]:
        self._progress(f"asking for {query.partition('{')[0]}")
        points = self._server.ask(query, self._at)
        return [(name, point) for point in points if (name := self._node(point.labels)) is not None]

    def number(self, name: str, query: str, *, is_first: bool = False) -> None:
        """`is_first`: its labels tell of the node, and find it again."""
        for node, point in self.ask(query):
            known = self.numbers.setdefault(node, {})
            if name in known and known[name] != point.value:
                self.doubled.add(node)
            known[name] = max(point.value, known.get(name, point.value))
            if is_first:
                self.describe(node, {key: value for key, value in point.labels.items() if key not in _OF_THE_SCRAPE})
                key = self._node_label or "instance"
                self.matchers.setdefault(node, (key, point.labels.get(key, "")))

    def describe(self, node: str, labels: Mapping[str, str]) -> None:
        known = self.labels.setdefault(node, {})
        for name, value in labels.items():
            if name != self._node_label and value:
                known.setdefault(name, value)

    def _node(self, labels: Mapping[str, str]) -> str | None:
        if self._node_label:
            return labels.get(self._node_label)
        instance = labels.get("instance")
        if instance is not None:
            return _PORT.sub("", instance)
        return labels.get("node")


def pull(
    server: MetricsServer,
    at: float,
    *,
    node_label: str | None = None,
    information: Iterable[str] = (),
    progress: Progress = lambda _: None,
) -> Fleet:
    """`information`: more series whose labels are properties of a node, such as an inventory's."""
    found = _Gathering(server, at, node_label, progress)
    by = f"instance,{node_label}" if node_label else "instance"
    found.number("zombies", ours.ZOMBIES.name, is_first=True)
    found.number("live", ours.LIVE.name)
    found.number("counted", ours.COUNTED.name)
    found.number("growth", f"{ours.GROWTH.name} * 3600")
    found.number("reached", f"{ours.THRESHOLD.name}")
    found.number("saturated", f"sum by ({by}) (increase({ours.CORE_SATURATED.name}[1h]))")
    found.number("resets", f"sum by ({by}) (increase({ours.NIC_RESETS.name}[1d]))")
    found.number("restarts", f"sum by ({by}) (increase({ours.UNIT_RESTARTS.name}[1h]))")
    for node, point in found.ask(ours.FINDING.name):
        found.findings.setdefault(node, {})[point.labels.get("id", "?")] = point.labels.get("severity", "unknown")
    found.number("exported", MEMORY_ROW, is_first=True)
    found.number("exported_growth", f"deriv({MEMORY_ROW}[1h]) * 3600")
    _describe(found, information)
    gaps = list(server.gaps)
    if found.doubled:
        first = shown(min(found.doubled).encode())
        why = f"{len(found.doubled):,} nodes are scraped twice with unlike values, such as {first}: the larger is taken"
        gaps.append(Gap("nodes[]", why, "drop one of the two scrapes"))
    nodes = tuple(_node(name, found, at) for name in sorted(found.numbers))
    return Fleet(at, server.name, nodes, found.matchers, tuple(gaps))


def _describe(found: _Gathering, information: Iterable[str]) -> None:
    for series, taken in INFORMATION.items():
        for node, point in found.ask(series):
            own = {taken[key]: value for key, value in point.labels.items() if key in taken}
            found.describe(node, own)
    for series in ("kube_node_labels", *information):
        for node, point in found.ask(series):
            own = {
                key.removeprefix("label_"): value
                for key, value in point.labels.items()
                if key not in _OF_THE_SCRAPE and key != "node"
            }
            found.describe(node, own)


def _node(name: str, found: _Gathering, at: float) -> FleetNode:
    numbers = found.numbers[name]
    labels = found.labels.get(name, {})
    has_ours = "zombies" in numbers
    gaps = []
    if not has_ours:
        why = "no agent of ours is scraped there: cgroups are counted by node_exporter, dead and live together"
        gaps.append(Gap("zombies", why, "run zombiescope agent on it"))
    remaining = numbers.get("reached")
    return FleetNode(
        name,
        labels,
        _whole(numbers, "zombies"),
        _whole(numbers, "live"),
        _whole(numbers, "counted" if has_ours else "exported"),
        numbers.get("growth" if has_ours else "exported_growth"),
        None if remaining is None else at + remaining,
        found.findings.get(name, {}),
        numbers.get("saturated"),
        numbers.get("resets"),
        numbers.get("restarts"),
        gaps=tuple(gaps),
    )


def _whole(numbers: Mapping[str, float], name: str) -> int | None:
    value = numbers.get(name)
    return None if value is None or value in (float("inf"), float("-inf")) else round(value)


def look_at_series(server: MetricsServer, at: float, progress: Progress = lambda _: None) -> list[SeriesSeen]:
    """Is each there, on how many nodes, and how old is the oldest?"""
    seen = []
    for each in ASKED:
        progress(f"asking for {each.name.partition('{')[0]}")
        ages: dict[str, float] = {}
        for point in server.ask(f"time() - timestamp({each.name})", at):
            node = _PORT.sub("", point.labels.get("instance", "")) or point.labels.get("node", "")
            ages[node] = min(point.value, ages.get(node, point.value))
        seen.append(each._replace(nodes=len(ages), oldest_seconds=max(ages.values(), default=None)))
    return seen


def history_of(
    server: MetricsServer, matchers: Sequence[tuple[str, str]], begin: float, end: float
) -> list[tuple[float, float]]:
    """Mean zombies of some nodes over time, as one line; of many nodes an even part stands for all. Empty: the server has none."""
    chosen = matchers[:: max(-(-len(matchers) // _MOST_ASKED), 1)]
    if not chosen:
        return []
    values = "|".join(re.escape(value) for _, value in chosen)
    step = max((end - begin) / _STEPS, 60)
    series = f"{ours.ZOMBIES.name}{{{chosen[0][0]}=~{quoted(values)}}}"
    lines = server.ask_range(f"avg(avg_over_time({series}[{step:.0f}s]))", begin, end, step)
    return lines[0].points if len(lines) == 1 else []


def quoted(value: str) -> str:
    """A string of PromQL: what a label holds is a stranger's."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
