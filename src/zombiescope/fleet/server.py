# SPDX-License-Identifier: Apache-2.0
"""Any server with Prometheus' HTTP API (Prometheus, VictoriaMetrics, Mimir, Thanos): instant and range queries, and nothing else.

It only asks. Whatever is not an answer of this API is an error that says so.
"""

import http.client
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from zombiescope.errors import ObservationError
from zombiescope.facts import metric_names as ours
from zombiescope.facts.fleet import Fleet, FleetNode, SeriesSeen
from zombiescope.facts.gap import Gap
from zombiescope.facts.names import quiet, shown_text
from zombiescope.host.web_server import Access, NoReplyError, WebServer

MOST_BYTES = 512 << 20
_MOST_SHOWN = 200
_HINT = "curl -s URL/api/v1/query?query=up shows what it answers"


class Point(NamedTuple):
    labels: Mapping[str, str]
    value: float


class Line(NamedTuple):
    labels: Mapping[str, str]
    points: list[tuple[float, float]]


class MetricsServer:
    def __init__(self, url: str, access: Access = Access(), timeout_seconds: float = 60.0) -> None:  # noqa: B008 (frozen)
        self._server = WebServer(url, access, timeout_seconds, example="--prometheus http://127.0.0.1:9090")
        self.name = self._server.name
        self.gaps: list[Gap] = []
        """What the server said of its own answers: that they are partial, or cut."""

    def ask(self, query: str, at: float) -> list[Point]:
        """An instant query. A value that is no number (NaN, infinite) is left out: the server has nothing to say there."""
        entries = self._result("query", {"query": query, "time": f"{at:.3f}"}, "vector")
        told = ((entry, _number(entry.get("value"))) for entry in entries)
        return [Point(_labels(entry), value) for entry, value in told if value is not None and math.isfinite(value)]

    def ask_range(self, query: str, begin: float, end: float, step: float) -> list[Line]:
        asked = {"query": query, "start": f"{begin:.3f}", "end": f"{end:.3f}", "step": f"{step:.0f}"}
        found = []
        for entry in self._result("query_range", asked, "matrix"):
            pairs = entry.get("values") or ()
            points = [(float(pair[0]), value) for pair in pairs if (value := _number(pair)) is not None]
            found.append(Line(_labels(entry), [each for each in points if math.isfinite(each[1])]))
        return found

    def _result(self, verb: str, asked: Mapping[str, str], wanted: str) -> list[Any]:
        answer = self._answer(verb, asked)
        data = answer.get("data")
        if answer.get("status") != "success" or not isinstance(data, dict):
            raise self._error(f"it answers {quiet(str(answer.get('error') or answer)[:_MOST_SHOWN])}")
        if data.get("resultType") != wanted or not isinstance(data.get("result"), list):
            raise self._error(f"it answers with a {quiet(str(data.get('resultType'))[:40])}, not with a {wanted}")
        if answer.get("isPartial") or answer.get("warnings"):
            why = quiet(str(answer.get("warnings") or "some of its storage did not answer")[:_MOST_SHOWN])
            self.gaps.append(Gap("nodes", f"the server answered in part: {why}", "ask again when it is whole"))
        return list(data["result"])

    def _answer(self, verb: str, asked: Mapping[str, str]) -> dict[str, Any]:
        headers = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        try:
            reply = self._server.post(f"/api/v1/{verb}", urlencode(asked), headers, MOST_BYTES)
        except NoReplyError as error:
            raise self._error(str(error)) from error
        if reply.leads_to:
            raise self._error(f"it sends us on to {reply.leads_to}, and a redirect is not followed", reply.status)
        try:
            answer = json.loads(reply.body)
        except ValueError as error:
            what = "a web page" if reply.body.lstrip()[:1] == b"<" else "something that is not JSON"
            raise self._error(f"it answers with {what} (status {reply.status})", reply.status) from error
        if not isinstance(answer, dict):
            raise self._error("it answers with JSON of another API", reply.status)
        if reply.status != http.client.OK and answer.get("status") != "error":
            raise self._error(f"it answers with status {reply.status}", reply.status)
        return answer

    def _error(self, why: str, status: int | None = None) -> ObservationError:
        hints = {
            401: "give a token: --token-file FILE",
            403: "the token may not ask this server: --token-file FILE",
            404: "is the path right? Mimir answers below /prometheus, VictoriaMetrics' cluster below /select/0/prometheus",
        }
        return ObservationError(f"cannot ask {self.name}", why, hints.get(status or 0, _HINT.replace("URL", self.name)))


def _labels(entry: object) -> dict[str, str]:
    metric = entry.get("metric") if isinstance(entry, dict) else None
    return {str(name): str(value) for name, value in metric.items()} if isinstance(metric, dict) else {}


def _number(pair: object) -> float | None:
    try:
        return float(pair[1]) if isinstance(pair, list) else None
    except (ValueError, TypeError, IndexError):
        return None


_PORT = re.compile(r":\d+\Z")
_OF_THE_SCRAPE = frozenset({
    "__name__", "instance", "job", "endpoint", "service", "pod", "container", "namespace", "uid", "prometheus",
    "prometheus_replica", "replica",
})  # fmt: skip
"""No property of a node. The series that nodes are described by have no labels of their own but these."""
MEMORY_ROW = 'node_cgroups_cgroups{subsys_name="memory"}'
_OF_THE_ROW = "subsys_name"
INFORMATION: Mapping[str, Mapping[str, str]] = {
    ours.NODE.name: {name: name for name in ours.NODE.labels},
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
RULES = (
    SeriesSeen(
        "instance:zombiescope_memcg:ratio", "our rules for each node", 0, None, "zombiescope export rules", False, True
    ),
    SeriesSeen(
        "fleet:zombiescope_nodes:count",
        "our rules for the fleet",
        0,
        None,
        "zombiescope export fleet-rules",
        False,
        True,
    ),
)
"""What our recording rules write, as a sign that they run."""

Progress = Callable[[str], None]
_MOST_ASKED, _STEPS = 60, 200


class _Gathering:
    """Numbers by node, one name after the other."""

    def __init__(self, server: MetricsServer, at: float, node_label: str | None, progress: Progress) -> None:
        self._server, self._at, self._node_label, self._progress = server, at, node_label, progress
        self.numbers: dict[str, dict[str, float]] = {}
        self.labels: dict[str, dict[str, str]] = {}
        self.findings: dict[str, dict[str, str]] = {}
        self.matchers: dict[str, tuple[str, str]] = {}
        self.doubled: set[str] = set()
        self.addresses: dict[str, str] = {}

    def ask(self, query: str, what: str = "") -> list[tuple[str, Point]]:
        self._progress(f"asking for {what or query.partition('{')[0]}")
        told = ((self._node(point.labels), point) for point in self._server.ask(query, self._at))
        return [(name, point) for name, point in told if name is not None]

    def number(self, name: str, query: str, *, is_first: bool = False) -> None:
        """`is_first`: its labels tell of the node, and find it again."""
        for node, point in self.ask(query):
            known = self.numbers.setdefault(node, {})
            if name in known and known[name] != point.value:
                self.doubled.add(node)
            known[name] = max(point.value, known.get(name, point.value))
            if is_first:
                foreign = (each for each in point.labels.items() if each[0] not in {*_OF_THE_SCRAPE, _OF_THE_ROW})
                self.describe(node, dict(foreign))
                key = self._node_label or "instance"
                self.matchers.setdefault(node, (key, point.labels.get(key, "")))
                if name == "zombies" and "instance" in point.labels:
                    self.addresses.setdefault(node, point.labels["instance"])

    def describe(self, node: str, labels: Mapping[str, str]) -> None:
        known = self.labels.setdefault(node, {})
        for name, value in labels.items():
            if name != self._node_label and value:
                known.setdefault(name, value)

    def _node(self, labels: Mapping[str, str]) -> str | None:
        if self._node_label:
            return labels.get(self._node_label)
        return _PORT.sub("", labels["instance"]) if "instance" in labels else labels.get("node")


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
    for name, query in (
        ("live", ours.LIVE.name),
        ("counted", ours.COUNTED.name),
        ("growth", f"{ours.GROWTH.name} * 3600"),
        ("reached", ours.THRESHOLD.name),
        ("saturated", f"sum by ({by}) (increase({ours.CORE_SATURATED.name}[1h]))"),
        ("resets", f"sum by ({by}) (increase({ours.NIC_RESETS.name}[1d]))"),
        ("restarts", f"sum by ({by}) (increase({ours.UNIT_RESTARTS.name}[1h]))"),
    ):
        found.number(name, query)
    for node, point in found.ask(ours.FINDING.name):
        found.findings.setdefault(node, {})[point.labels.get("id", "?")] = point.labels.get("severity", "unknown")
    found.number("exported", MEMORY_ROW, is_first=True)
    found.number("exported_growth", f"deriv({MEMORY_ROW}[1h]) * 3600")
    _describe(found, information)
    silent = _silent(found, by)
    gaps = list(server.gaps)
    if found.doubled:
        first = shown_text(min(found.doubled))
        gaps.append(
            Gap(
                "nodes[]",
                f"{len(found.doubled):,} nodes are scraped twice with unlike values, such as {first}: the larger is taken",
                "drop one of the two scrapes",
            )
        )
    if silent:
        why = f"{len(silent):,} nodes told of themselves before and are silent now, such as {shown_text(min(silent))}"
        gaps.append(Gap("nodes[].zombies", why, "up == 0 on the server names the scrapes that fail"))
    foreign = sum("zombies" not in numbers and "exported" in numbers for numbers in found.numbers.values())
    if foreign:
        why = (
            f"{foreign:,} nodes have no agent of ours: node_exporter counts their cgroups, dead and live together; "
            "findings, makers, saturated cores, resets and restarts are not known there"
        )
        gaps.append(Gap("nodes[].findings", why, "zombiescope export unit, on each of them"))
    nodes = tuple(_node(name, found, at) for name in sorted({*found.numbers, *silent}))
    return Fleet(at, server.name, nodes, found.matchers, tuple(gaps), found.addresses)


def _silent(found: _Gathering, by: str) -> set[str]:
    """Nodes whose agent is still scraped and no longer answers. One that nobody scrapes any more has left the fleet."""
    zombies = ours.ZOMBIES.name
    before = f"({zombies} offset 1h or {zombies} offset 1d) and on ({by}) (up == 0) unless on ({by}) {zombies}"
    silent = set()
    for node, point in found.ask(before, "agents that fell silent"):
        if not {"zombies", "exported"} & set(found.numbers.get(node, {})):
            silent.add(node)
            found.describe(node, {key: value for key, value in point.labels.items() if key not in _OF_THE_SCRAPE})
    return silent


def _describe(found: _Gathering, information: Iterable[str]) -> None:
    for series, taken in INFORMATION.items():
        for node, point in found.ask(series):
            found.describe(node, {taken[key]: value for key, value in point.labels.items() if key in taken})
    for series in ("kube_node_labels", *information):
        for node, point in found.ask(series):
            own = {
                key.removeprefix("label_"): value
                for key, value in point.labels.items()
                if key not in _OF_THE_SCRAPE and key != "node"
            }
            found.describe(node, own)


def _node(name: str, found: _Gathering, at: float) -> FleetNode:
    numbers = found.numbers.get(name, {})
    has_ours = "zombies" in numbers
    gaps = []
    if not has_ours and "exported" not in numbers:
        gaps.append(
            Gap(
                "zombies",
                "its agent answered within the last day, and does not now",
                "systemctl status zombiescope on it",
            )
        )
    elif not has_ours:
        gaps.append(
            Gap(
                "zombies",
                "no agent of ours is scraped there: cgroups are counted by node_exporter, dead and live together",
                "run zombiescope agent on it",
            )
        )
    remaining = numbers.get("reached")
    return FleetNode(
        name,
        found.labels.get(name, {}),
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


def look_at_series(
    server: MetricsServer, at: float, node_label: str | None = None, progress: Progress = lambda _: None
) -> list[SeriesSeen]:
    """Is each there, on how many nodes, and how old is the oldest? One number per node, however many series it has."""
    found = _Gathering(server, at, node_label, progress)
    by = f"instance, node, {node_label}" if node_label else "instance, node"
    seen = []
    for each in ASKED:
        ages: dict[str, float] = {}
        for node, point in found.ask(f"min by ({by}) (time() - timestamp({each.name}))", each.name.partition("{")[0]):
            ages[node] = min(point.value, ages.get(node, point.value))
        seen.append(each._replace(nodes=len(ages), oldest_seconds=max(ages.values(), default=None)))
    for each in RULES:
        old = [point.value for point in server.ask(f"time() - timestamp({each.name})", at)]
        seen.append(each._replace(nodes=len(old), oldest_seconds=max(old, default=None)))
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
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
