# SPDX-License-Identifier: Apache-2.0
"""Rules, dashboard and stream aggregation for fleets: promtool's cases and near misses, then real servers over forty nodes."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.fleets.targets import targets
from tests.server.running import Prometheus, ended, fetch, free_port, wait_for
from tests.server.test_fleet import told
from tests.server.vmagent import vmagent

from zombiescope.errors import UsageError
from zombiescope.facts.fleet import FleetNode
from zombiescope.facts.metric_names import METRICS, PREFIX
from zombiescope.presenters.grafana_dashboard import fleet_panels, render_fleet_dashboard
from zombiescope.presenters.prometheus_rules import (
    cohort_labels,
    fleet_alerts,
    fleet_records,
    render_fleet_rules,
    render_stream_aggregation,
)

HERE = Path(__file__).parent
LABELS = ("zone", "image")


def node(number: int, image: str, zone: str, *, sick: bool, growing: bool) -> FleetNode:
    zombies, growth = (9000, 400.0) if sick else (3, 0.0)
    labels = {"image": image, "kernel": "6.1", "zone": zone}
    findings = {"zombie-growth": "warning"} if growing else {}
    return FleetNode(f"n{number:02d}", labels, zombies, 40, zombies + 40, growth if growing else 0.0, findings=findings)


def planted() -> list[FleetNode]:
    """Eight of ten with the bad image are sick; zones are even."""
    return [
        node(number, "bad" if number < 10 else "good", "ab"[number % 2], sick=number < 8, growing=number < 8)
        for number in range(40)
    ]


def near() -> list[FleetNode]:
    return [node(n, "good", "small" if n < 4 else "large", sick=n < 2, growing=n < 2) for n in range(40)]


def even() -> list[FleetNode]:
    return [node(n, "xy"[n % 2], "abcd"[n // 10], sick=n % 10 < 4, growing=False) for n in range(40)]


def series(nodes: list[FleetNode], silent: str) -> str:
    lines = []
    for one in nodes:
        own = f'instance="{one.name}",zone="{one.labels["zone"]}"'
        lines.append(f"  - {{series: 'zombiescope_memcg_zombies{{{own}}}', values: '{one.zombies}x30'}}")
        rate = (one.growth_per_hour or 0.0) / 3600
        lines.append(f"  - {{series: 'zombiescope_memcg_growth_per_second{{{own}}}', values: '{rate:g}x30'}}")
        info = f'instance="{one.name}",image="{one.labels["image"]}",kernel="6.1",hierarchy="v1"'
        lines.append(f"  - {{series: 'zombiescope_node_info{{{info}}}', values: '1x30'}}")
        up = silent if int(one.name[1:]) % 5 == 0 else "1x30"
        lines.append(f"  - {{series: 'up{{instance=\"{one.name}\",job=\"zombiescope\"}}', values: '{up}'}}")
    return "\n".join(lines)


def test_promtool_accepts_the_rules_and_their_cases_hold(tmp_path: Path) -> None:
    (tmp_path / "fleet.yml").write_text(render_fleet_rules(LABELS), encoding="utf-8")
    cases = (HERE / "fleet_rules_test.yml").read_text(encoding="utf-8")
    cases = cases.replace("NODES_BAD", series(planted(), "1x30"))
    cases = cases.replace("NODES_NEAR", series(near(), "1x5 0x9 1x30")).replace(
        "NODES_EVEN", series(even(), "1x5 0x30")
    )
    (tmp_path / "cases.yml").write_text(cases, encoding="utf-8")
    for command in (["check", "rules", "fleet.yml"], ["test", "rules", "cases.yml"]):
        done = subprocess.run(["promtool", *command], cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_every_metric_of_ours_exists_and_every_alert_has_its_page() -> None:
    known = {metric.name for metric in METRICS}
    texts = [record.expression for record in fleet_records(LABELS)]
    texts += [alert.expression for alert in fleet_alerts(LABELS)]
    texts += [expression for panel in fleet_panels(LABELS) for expression, _ in panel.expressions]
    assert {name for text in texts for name in re.findall(rf"(?<![:\w]){PREFIX}\w+", text)} <= known
    recorded = {record.name for record in fleet_records(LABELS)}
    assert {name for text in texts for name in re.findall(r"\w+:zombiescope_\w+:\w+", text)} <= recorded
    assert [alert.page for alert in fleet_alerts(LABELS)] == ["growth", "stock", "", "stock", "stock"]


@pytest.mark.parametrize("label", ["zo ne", "a-b", "", "1a", 'x"}', "zone\n"])
def test_a_label_that_is_none_is_refused(label: str) -> None:
    with pytest.raises(UsageError):
        cohort_labels([label])


@contextmanager
def prometheus(folder: Path, scrapes: str, rules: str) -> Iterator[Prometheus]:
    (folder / "fleet.yml").write_text(rules, encoding="utf-8")
    head = "global: {scrape_interval: 3s, scrape_timeout: 3s, evaluation_interval: 1s}\nrule_files: [fleet.yml]\nscrape_configs: "
    (folder / "prometheus.yml").write_text(head + scrapes, encoding="utf-8")
    address = f"127.0.0.1:{free_port()}"
    flags = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    with open(folder / "errors", "w", encoding="utf-8") as errors:
        process = subprocess.Popen(["prometheus", *flags, f"--web.listen-address={address}"], stderr=errors, text=True)
    with ended(process):
        server = Prometheus(f"http://{address}")
        assert wait_for(lambda: fetch(f"{server.address}/-/ready")), (folder / "errors").read_text()[-2000:]
        yield server


def test_a_real_server_names_the_outlier_and_answers_every_panel(tmp_path: Path) -> None:
    with targets(planted()) as scrapes, prometheus(tmp_path, scrapes, render_fleet_rules(LABELS)) as server:

        def raised() -> set[tuple[str, str]]:
            _, body = fetch(f"{server.address}/api/v1/alerts")
            alerts = json.loads(body)["data"]["alerts"]
            return {(each["labels"]["alertname"], each["labels"].get("image", "")) for each in alerts}

        wanted = {("FleetZombiesGrowing", ""), ("FleetZombiesSick", ""), ("FleetCohortOutlierImage", "bad")}
        bad = 'image:zombiescope_nodes_sick:share{image="bad"} == 0.8'
        whole = f"{bad} and on () fleet:zombiescope_nodes:count == 40"
        assert wait_for(lambda: server.query(whole) and raised() == wanted), (raised(), server.query(bad))
        dashboard = render_fleet_dashboard(LABELS)
        for panel in dashboard["panels"]:
            for target in panel["targets"]:
                server.query(target["expr"])
        found = told("cohorts", "--prometheus", server.address)
        assert found["cohorts"][0]["labels"] == {"image": "bad"}, "the command agrees"


@contextmanager
def victoria(folder: Path) -> Iterator[str]:
    address = f"127.0.0.1:{free_port()}"
    flags = [f"-storageDataPath={folder}/victoria", f"-httpListenAddr={address}", "-search.latencyOffset=0s"]
    with open(folder / "victoria.err", "w", encoding="utf-8") as errors:
        process = subprocess.Popen(["victoria-metrics", *flags], stderr=errors, text=True)
    with ended(process):
        assert wait_for(lambda: fetch(f"http://{address}/health")), (folder / "victoria.err").read_text()[-2000:]
        yield f"http://{address}"


def test_vmagent_aggregates_and_a_server_receives_shares_instead_of_nodes(tmp_path: Path) -> None:
    (tmp_path / "aggregation.yml").write_text(render_stream_aggregation(("zone",), "4s"), encoding="utf-8")
    with targets(planted()) as scrapes, victoria(tmp_path) as server:
        (tmp_path / "scrape.yml").write_text(
            f"global: {{scrape_interval: 2s}}\nscrape_configs: {scrapes}", encoding="utf-8"
        )
        flags = [
            f"-promscrape.config={tmp_path}/scrape.yml",
            f"-remoteWrite.url={server}/api/v1/write",
            f"-remoteWrite.tmpDataPath={tmp_path}/queue",
            f"-remoteWrite.streamAggr.config={tmp_path}/aggregation.yml",
            "-remoteWrite.streamAggr.dropInput=true",
            f"-httpListenAddr=127.0.0.1:{free_port()}",
        ]
        with open(tmp_path / "vmagent.err", "w", encoding="utf-8") as errors:
            process = subprocess.Popen([str(vmagent()), *flags], stderr=errors, stdout=errors, text=True)

        def ask(query: str) -> dict[str, float]:
            _, body = fetch(f"{server}/api/v1/query?" + urllib.parse.urlencode({"query": query}))
            found = json.loads(body)["data"]["result"]
            return {json.dumps(each["metric"], sort_keys=True): float(each["value"][1]) for each in found}

        with ended(process):
            growing = (
                'sum(last_over_time(zombiescope_finding:4s_by_id_severity_zone_count_series{id="zombie-growth"}[1m]))'
            )
            nodes = "sum(last_over_time(zombiescope_memcg_zombies:4s_by_zone_count_series[1m]))"
            share = f"{growing} / {nodes}"
            arrived = wait_for(lambda: list(ask(share).values()) == [0.2])
            assert arrived, (tmp_path / "vmagent.err").read_text()[-2000:]
            assert list(ask("max(last_over_time(zombiescope_memcg_zombies:4s_by_zone_max[1m]))").values()) == [9000]
            kernels = "sum(last_over_time(zombiescope_node_info:4s_by_hierarchy_image_kernel_zone_count_series[1m])) by (image)"
            assert wait_for(lambda: sorted(ask(kernels).values()) == [10, 30])
            assert ask("zombiescope_memcg_zombies") == {}, "the series of each node stayed at the edge"
